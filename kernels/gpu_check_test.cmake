# gpu_check must be able to say "different": with a build under forbidden flags in the device's place it has to exit 1
# and name the first element, or its green on a device means nothing.
execute_process(COMMAND ${PROGRAM} --on forbidden-flags --repetitions 1 --output ${OUTPUT} RESULT_VARIABLE code
                OUTPUT_VARIABLE table)
if(NOT code EQUAL 1)
  message(FATAL_ERROR "gpu_check --on forbidden-flags exited ${code}, not 1:\n${table}")
endif()
file(READ ${OUTPUT} result)
string(JSON verdict GET "${result}" verdict)
string(JSON first GET "${result}" subjects 0 kernels 0 first_mismatch)
if(NOT verdict STREQUAL "different" OR NOT first MATCHES "want 0x.*got 0x")
  message(FATAL_ERROR "gpu_check wrote verdict '${verdict}' and first mismatch '${first}' to ${OUTPUT}")
endif()
