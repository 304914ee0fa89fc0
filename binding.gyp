{
  "targets": [
    {
      "target_name": "blockstep_host",
      "sources": [
        "native/addon/addon.cc",
        "native/addon/backend.cc",
        "native/addon/call.cc",
        "native/addon/configuration.cc",
        "native/addon/device_reference_object.cc",
        "native/addon/device_tables.cc",
        "native/addon/environment.cc",
        "native/addon/methods.cc",
        "native/addon/reference_object.cc",
        "native/addon/transfer_objects.cc",
        "native/host/completion_ring.cc",
        "native/host/copy_plan.cc",
        "native/host/core.cc",
        "native/host/decided.cc",
        "native/host/decider.cc",
        "native/host/gathered.cc",
        "native/host/gatherer.cc",
        "native/host/host_lane.cc",
        "native/host/mirror.cc",
        "native/host/mirrored.cc",
        "native/host/pending.cc",
        "native/host/queries.cc",
        "native/host/request_table.cc",
        "native/host/step.cc",
        "native/host/tables.cc",
        "native/reference/check.cc",
        "native/reference/continuation.cc",
        "native/reference/plan.cc",
        "native/reference/reference.cc"
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
    }
  ]
}
