{
  "targets": [
    {
      "target_name": "blockstep_host",
      "sources": [
        "native/addon/addon.cc",
        "native/addon/base/backend.cc",
        "native/addon/base/call.cc",
        "native/addon/base/environment.cc",
        "native/addon/core/configuration.cc",
        "native/addon/core/device_tables.cc",
        "native/addon/core/group_methods.cc",
        "native/addon/core/methods.cc",
        "native/addon/objects/arena_object.cc",
        "native/addon/objects/device_reference_object.cc",
        "native/addon/objects/reference_object.cc",
        "native/addon/objects/transfer_objects.cc",
        "native/host/base/condition.cc",
        "native/host/core.cc",
        "native/host/decided/decider.cc",
        "native/host/decided/decisions.cc",
        "native/host/decided/followed.cc",
        "native/host/events/kv_events.cc",
        "native/host/gather/device_gather.cc",
        "native/host/gather/gatherer.cc",
        "native/host/gather/host_gather.cc",
        "native/host/inspect/queries.cc",
        "native/host/log/fact_log.cc",
        "native/host/log/pool_commands.cc",
        "native/host/mirror/mirror.cc",
        "native/host/mirror/mirrored.cc",
        "native/host/requests/check_frame.cc",
        "native/host/requests/hash_lanes.cc",
        "native/host/requests/request_table.cc",
        "native/host/requests/slots.cc",
        "native/host/core_groups.cc",
        "native/host/groups/group_admissions.cc",
        "native/host/groups/group_census.cc",
        "native/host/groups/group_rows.cc",
        "native/host/groups/group_running.cc",
        "native/host/groups/prefix_search.cc",
        "native/host/step/admissions.cc",
        "native/host/step/pending.cc",
        "native/host/step/running.cc",
        "native/host/tables/tables.cc",
        "native/reference/check.cc",
        "native/reference/memory_use.cc",
        "native/reference/plan.cc",
        "native/reference/reference.cc",
        "native/reference/sequence/continuation.cc",
        "native/transfer/completion_ring.cc",
        "native/transfer/lane/copy_plan.cc",
        "native/transfer/lane/host_lane.cc"
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
        "native/llama/api/library.cc",
        "native/llama/api/log.cc",
        "native/llama/deep_thread.cc",
        "native/llama/runner.cc",
        "native/llama/sampler.cc",
        "native/llama/weights.cc",
        "native/llama/objects/addon.cc",
        "native/llama/objects/context_object.cc",
        "native/llama/objects/library_object.cc",
        "native/llama/objects/model_object.cc"
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
