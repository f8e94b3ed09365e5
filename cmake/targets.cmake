# One library a folder, its tests beside it: every *.cpp that is not a *_test.cpp or *_benchmark.cpp belongs to the
# library, every *_test.cpp to one GoogleTest program that ctest runs test by test. Nothing can be left out of a list.
include(GoogleTest)

# resumecheck_library(NAME folder-relative-name DEPENDS ... [EXCLUDE file ...])
function(resumecheck_library name)
  cmake_parse_arguments(LIB "" "" "DEPENDS;PRIVATE_DEPENDS;EXCLUDE;TEST_DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark|fuzzer)\\.cpp$")
  if(LIB_EXCLUDE)
    list(REMOVE_ITEM sources ${LIB_EXCLUDE})
    list(REMOVE_ITEM tests ${LIB_EXCLUDE})
  endif()
  if(sources)
    add_library(resumecheck_${name} STATIC ${sources})
    target_include_directories(resumecheck_${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(resumecheck_${name} PUBLIC ${LIB_DEPENDS} PRIVATE ${LIB_PRIVATE_DEPENDS})
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE $<TARGET_NAME_IF_EXISTS:resumecheck_${name}> ${LIB_DEPENDS} ${LIB_PRIVATE_DEPENDS}
                                               ${LIB_TEST_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE RESUMECHECK_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                    RESUMECHECK_BINARY_DIR="${PROJECT_BINARY_DIR}")
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}/" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900)
  endif()
endfunction()
