{
  "targets": [
    {
      "target_name": "blockstep_host",
      "sources": [
        "../addon/addon.cc",
        "../addon/base/backend.cc",
        "../addon/base/call.cc",
        "../addon/base/environment.cc",
        "../addon/core/configuration.cc",
        "../addon/core/device_tables.cc",
        "../addon/core/group_methods.cc",
        "../addon/core/methods.cc",
        "../addon/fatal_signals.cc",
        "../addon/file_lock.cc",
        "../addon/objects/arena_object.cc",
        "../addon/objects/device_reference_object.cc",
        "../addon/objects/reference_object.cc",
        "../addon/objects/transfer_objects.cc",
        "../host/base/condition.cc",
        "../host/core.cc",
        "../host/decided/decider.cc",
        "../host/decided/decisions.cc",
        "../host/decided/followed.cc",
        "../host/events/kv_events.cc",
        "../host/gather/device_gather.cc",
        "../host/gather/gatherer.cc",
        "../host/gather/host_gather.cc",
        "../host/inspect/queries.cc",
        "../host/log/fact_log.cc",
        "../host/log/pool_commands.cc",
        "../host/mirror/mirror.cc",
        "../host/mirror/mirrored.cc",
        "../host/requests/check_frame.cc",
        "../host/requests/hash_lanes.cc",
        "../host/requests/request_table.cc",
        "../host/requests/slots.cc",
        "../host/core_groups.cc",
        "../host/groups/group_admissions.cc",
        "../host/groups/group_census.cc",
        "../host/groups/group_rows.cc",
        "../host/groups/group_running.cc",
        "../host/groups/prefix_search.cc",
        "../host/step/admissions.cc",
        "../host/step/pending.cc",
        "../host/step/running.cc",
        "../host/tables/tables.cc",
        "../reference/check.cc",
        "../reference/memory_use.cc",
        "../reference/plan.cc",
        "../reference/reference.cc",
        "../reference/sequence/continuation.cc",
        "../transfer/completion_ring.cc",
        "../transfer/lane/copy_plan.cc",
        "../transfer/lane/host_lane.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti"],
      "cflags_cc": ["-std=c++20", "-O3", "-fexceptions", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"],
      "conditions": [
        ["OS=='linux'", { "cflags_cc": ["-pthread"], "libraries": ["-pthread"] }],
        ["OS=='mac'", {
          "xcode_settings": {
            "CLANG_CXX_LANGUAGE_STANDARD": "c++20",
            "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
            "GCC_OPTIMIZATION_LEVEL": "3",
            "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
            "MACOSX_DEPLOYMENT_TARGET": "12.0"
          }
        }],
        ["OS=='win'", {
          "msvs_settings": {
            "VCCLCompilerTool": { "ExceptionHandling": 1, "AdditionalOptions": ["/std:c++20"] }
          }
        }]
      ]
    },
    {
      "target_name": "blockstep_llama",
      "sources": [
        "../llama/api/library.cc",
        "../llama/api/log.cc",
        "../llama/attention/attention.cc",
        "../llama/attention/call.cc",
        "../llama/attention/portable.cc",
        "../llama/attention/reads.cc",
        "../llama/attention/trial.cc",
        "../llama/attention/x64.cc",
        "../llama/block_copier.cc",
        "../llama/block_header.cc",
        "../llama/context.cc",
        "../llama/runner.cc",
        "../llama/sampler.cc",
        "../llama/deep_thread.cc",
        "../llama/weights.cc",
        "../llama/embed/embedder.cc",
        "../llama/objects/addon.cc",
        "../llama/objects/context_object.cc",
        "../llama/objects/library_object.cc",
        "../llama/objects/model_object.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": ["NAPI_VERSION=8", "NAPI_CPP_EXCEPTIONS", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
      "cflags_cc!": ["-fno-exceptions", "-fno-rtti"],
      "cflags_cc": ["-std=c++20", "-O3", "-fexceptions", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"],
      "conditions": [
        ["OS=='linux'", { "cflags_cc": ["-pthread"], "libraries": ["-pthread", "-ldl"] }],
        ["OS=='mac'", {
          "xcode_settings": {
            "CLANG_CXX_LANGUAGE_STANDARD": "c++20",
            "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
            "GCC_OPTIMIZATION_LEVEL": "3",
            "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
            "MACOSX_DEPLOYMENT_TARGET": "12.0"
          }
        }],
        ["OS=='win'", {
          "msvs_settings": {
            "VCCLCompilerTool": { "ExceptionHandling": 1, "AdditionalOptions": ["/std:c++20"] }
          }
        }]
      ]
    }
  ]
}
