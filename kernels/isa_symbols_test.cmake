# The linker keeps one copy of an inline function. If a unit built for a newer instruction set offers one, everybody may
# get it, and an old processor dies in code that never asked for AVX-512. So those units may define their table alone.
execute_process(COMMAND ${NM} --defined-only --extern-only ${OBJECTS} RESULT_VARIABLE failed OUTPUT_VARIABLE symbols)
if(failed)
  message(FATAL_ERROR "${NM} could not read ${OBJECTS}")
endif()
string(REGEX MATCHALL "[^\n]+ [A-Za-z] [^\n]+" definitions "${symbols}")
list(LENGTH definitions count)
foreach(definition IN LISTS definitions)
  if(NOT definition MATCHES " [DR] _ZN11resumecheck7kernels[0-9]+(baseline|avx2|avx512|contracted|fast_math)_unitE$")
    message(SEND_ERROR "an instruction set's unit offers '${definition}' to the linker; make it static or anonymous")
  endif()
endforeach()
if(count EQUAL 0)
  message(FATAL_ERROR "no symbols at all in ${OBJECTS}: is this the right list?")
endif()

# A unit that calls fmaf was built without its -mfma: right bits, at a tenth of the speed.
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --undefined-only ${object} OUTPUT_VARIABLE needed)
  if(object MATCHES "isa_(avx2|avx512|contracted|fast_math)" AND needed MATCHES "fmaf")
    message(SEND_ERROR "${object} calls fmaf: its line of isa_flags.txt did not reach the compiler")
  endif()
endforeach()
