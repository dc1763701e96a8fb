# A room is a directory with a static library, its tests and its benchmarks.
#
#   varifocal_room(NAME tokenizer
#     SOURCES bpe.cc tokenizer.cc            # sources of the library varifocal_tokenizer (header-only rooms list none)
#     DEPS varifocal_base absl::status       # link targets, public; they also enforce the dependency rule
#     TESTS bpe_test.cc                      # one gtest program tokenizer_test, every case a ctest
#     TEST_DEPS ...                          # link targets of the tests alone
#     TEST_LABELS slow                       # optional ctest labels for the whole test program
#     SLOW_TESTS Full/*                      # or the label `slow` for the cases of this filter
#     BENCHES bpe_bench.cc                   # one Google Benchmark program each, built by the target `benches` alone
#     O1                                     # varifocal_o1, below
#     SEPARATE bpe.cc)                       # not part of a unity build: names of its unnamed namespace are used elsewhere too
#
# Tests run in the source root, so testdata paths are relative to the repository.
add_custom_target(benches)

function(varifocal_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers)
  if(VARIFOCAL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # Contraction may fuse a multiply-add in one build and not in another, which violates the same-bits guarantee.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
  if(VARIFOCAL_SANITIZE)
    # With sanitizers, g++ 12 falsely reports moved std::functions (std::regex) as uninitialised; the sanitizers detect real ones.
    target_compile_options(${target} PRIVATE -fsanitize=${VARIFOCAL_SANITIZE} -fno-omit-frame-pointer
                                             -Wno-maybe-uninitialized)
    target_link_options(${target} PRIVATE -fsanitize=${VARIFOCAL_SANITIZE})
    # Checks of every pointer double the time to compile. Alignment matters where files and vectors are read as other types;
    # AddressSanitizer sees null, short and freed objects.
    if(VARIFOCAL_SANITIZE MATCHES undefined AND NOT "${target}" MATCHES "kernels|model|tokenizer")
      target_compile_options(${target} PRIVATE -fno-sanitize=null,vptr,alignment,object-size)
    endif()
  endif()
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
endfunction()

# No loops over tokens or rows: release builds take -O1, which compiles a quarter faster.
function(varifocal_o1 target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# A gtest program's own sources: compiled with -Og, which takes a quarter less time than -O1; the code under test is not affected.
function(varifocal_test_options target)
  varifocal_options(${target})
  target_compile_options(${target} PRIVATE -Og)
endfunction()

# gtest, gmock and the golden messages (tests/support/messages.h), which a build of the kernels alone lacks.
function(varifocal_link_gtest target)
  if(NOT VARIFOCAL_KERNELS_ONLY)
    target_link_libraries(${target} PRIVATE varifocal_messages)
  endif()
  target_link_libraries(${target} PRIVATE GTest::gmock GTest::gtest_main)
endfunction()

# varifocal_discover_tests(program_test PREFIX room: SLOW_TESTS Full/* PROPERTIES ..): a gtest program's cases as tests of ctest;
# those that match SLOW_TESTS have the label `slow` besides.
function(varifocal_discover_tests target)
  cmake_parse_arguments(D "" "PREFIX;SLOW_TESTS" "PROPERTIES" ${ARGN})
  set(common WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_TIMEOUT 60 TEST_PREFIX ${D_PREFIX})
  if(D_SLOW_TESTS)
    gtest_discover_tests(${target} ${common} TEST_FILTER "-${D_SLOW_TESTS}" PROPERTIES ${D_PROPERTIES})
    gtest_discover_tests(${target} ${common} TEST_FILTER "${D_SLOW_TESTS}" TEST_LIST ${target}_SLOW PROPERTIES ${D_PROPERTIES} LABELS slow)
  else()
    gtest_discover_tests(${target} ${common} PROPERTIES ${D_PROPERTIES})
  endif()
endfunction()

function(varifocal_room)
  cmake_parse_arguments(R "O1" "NAME;SLOW_TESTS" "SOURCES;DEPS;TESTS;TEST_DEPS;TEST_LABELS;BENCHES;SEPARATE" ${ARGN})
  set_source_files_properties(${R_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(R_SOURCES)
    add_library(varifocal_${R_NAME} STATIC ${R_SOURCES})
    varifocal_options(varifocal_${R_NAME})
    if(R_O1)
      varifocal_o1(varifocal_${R_NAME})
    endif()
    target_link_libraries(varifocal_${R_NAME} PUBLIC ${R_DEPS})
  else()
    add_library(varifocal_${R_NAME} INTERFACE)
    target_link_libraries(varifocal_${R_NAME} INTERFACE ${R_DEPS})
  endif()
  if(R_TESTS AND TARGET GTest::gtest_main)
    add_executable(${R_NAME}_test ${R_TESTS})
    varifocal_test_options(${R_NAME}_test)
    target_link_libraries(${R_NAME}_test PRIVATE varifocal_${R_NAME} ${R_TEST_DEPS})
    varifocal_link_gtest(${R_NAME}_test)
    set(properties TIMEOUT 300)
    if(R_TEST_LABELS)
      list(APPEND properties LABELS "${R_TEST_LABELS}")
    endif()
    varifocal_discover_tests(${R_NAME}_test PREFIX ${R_NAME}: SLOW_TESTS ${R_SLOW_TESTS} PROPERTIES ${properties})
  endif()
  foreach(bench ${R_BENCHES})
    get_filename_component(bench_name ${bench} NAME_WE)
    add_executable(${bench_name} ${bench})
    varifocal_options(${bench_name})
    set_target_properties(${bench_name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(benches ${bench_name})
    target_link_libraries(${bench_name} PRIVATE varifocal_${R_NAME} ${R_TEST_DEPS} benchmark::benchmark_main)
  endforeach()
endfunction()

# varifocal_room_test(NAME eval_tasks_real TESTS a_test.cc DEPS targets.. LABELS real): a further gtest program of a room,
# whose cases all have these ctest labels.
function(varifocal_room_test)
  cmake_parse_arguments(T "" "NAME" "TESTS;DEPS;LABELS" ${ARGN})
  if(NOT TARGET GTest::gtest_main)
    return()
  endif()
  add_executable(${T_NAME}_test ${T_TESTS})
  varifocal_test_options(${T_NAME}_test)
  target_link_libraries(${T_NAME}_test PRIVATE ${T_DEPS})
  varifocal_link_gtest(${T_NAME}_test)
  gtest_discover_tests(${T_NAME}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DISCOVERY_TIMEOUT 60 TEST_PREFIX ${T_NAME}:
                       PROPERTIES TIMEOUT 300 LABELS "${T_LABELS}")
endfunction()

# varifocal_embed(TARGET t NAME n FILES a b ...): the files' bytes, compiled into the target t behind a function
# `EmbeddedFiles Embedded_n()` in namespace varifocal (base/embedded.h), which the room declares where it calls it.
function(varifocal_embed)
  cmake_parse_arguments(E "" "TARGET;NAME" "FILES" ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${E_NAME}.cc)
  set(paths)
  foreach(f ${E_FILES})
    list(APPEND paths ${CMAKE_CURRENT_SOURCE_DIR}/${f})
  endforeach()
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DNAME=${E_NAME} "-DFILES=${paths}" -P ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/cmake/Embed.cmake VERBATIM)
  target_sources(${E_TARGET} PRIVATE ${out})
endfunction()
