# Tests that run under mpirun, as root too (containers), and with more ranks than cores.
set(RESUMECHECK_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
set(RESUMECHECK_MPIRUN_FLAGS --oversubscribe --bind-to none)

# resumecheck_mpi_test(NAME RANKS COMMAND ...)
function(resumecheck_mpi_test name ranks)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${RESUMECHECK_MPIRUN_FLAGS} -np ${ranks} ${ARGN})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${RESUMECHECK_MPI_ENVIRONMENT}" TIMEOUT 300
                                          PROCESSORS ${ranks} SKIP_RETURN_CODE 77)
endfunction()
