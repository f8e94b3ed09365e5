# Run at every build: writes the commit into a header, and touches it only when it changed, so that
# a commit rebuilds one small file. cmake -DSOURCE=... -DOUTPUT=... -P build_identity.cmake
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define RESUMECHECK_COMMIT \"${commit}\"\n")
