// Output of compute-sanitizer.

/** Output of compute-sanitizer, as far as it is documented and was seen. */
export const TEXTS = {
  CLEAN_MEMCHECK: `========= COMPUTE-SANITIZER
{"steps": 400, "equal": true}
========= ERROR SUMMARY: 0 errors
`,

  CLEAN_RACECHECK: `========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
`,

  OUT_OF_BOUNDS: `========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at apply_slot(Home *, unsigned int)+0x120
=========     by thread (3,0,0) in block (0,0,0)
=========     Access at 0x7f2b44000400 is out of bounds
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
========= ERROR SUMMARY: 2 errors
`,

  RACE: `========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at apply+0x80 and Read access at apply+0x90 [512 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
`,

  /** A host that shields its devices from the tool. */
  NOT_SUPPORTED: `========= COMPUTE-SANITIZER
========= Error: Device not supported. Please refer to the "Supported Devices" section of the sanitizer documentation
=========
========= Program hit cudaErrorUnknown (error 999) due to "unknown error" on CUDA API call to cudaMalloc.
========= ERROR SUMMARY: 1 error
`,

  NOT_ATTACHED: `========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
`,

  /** The program itself gave up under the tool, of which the tool knows nothing. */
  GAVE_UP: `========= COMPUTE-SANITIZER
========= ERROR SUMMARY: 0 errors
`,
} as const;
