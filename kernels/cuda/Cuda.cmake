# The CUDA backend (if nvcc is found), and its emulator and tests (if enabled).
#
# Included by kernels/CMakeLists.txt, so that the backend becomes part of varifocal_kernels.
set(cuda_host cuda/attention_choice.cc cuda/attention_sm90_load.cc cuda/batch_plan.cc cuda/cuda_backend.cc cuda/cuda_fusion.cc cuda/cuda_gather.cc cuda/cuda_head.cc cuda/cuda_inspection.cc cuda/cuda_mixture.cc cuda/cuda_products.cc cuda/cuda_recurrence.cc cuda/cuda_storage.cc cuda/cuda_streams.cc cuda/cuda_weight.cc cuda/cuda_workspace.cc cuda/decode_choice.cc cuda/device_error.cc cuda/device_memory.cc cuda/device_turns.cc cuda/gather_plan.cc cuda/step_graphs.cc cuda/weights_ahead.cc)

if(VARIFOCAL_HAS_CUDA)
  varifocal_cuda_objects(OUT cuda_objects REPORTS cuda_reports
    FILES cuda/attention_16_48.cu cuda/attention_64_96.cu cuda/attention_112_128.cu cuda/attention_192.cu cuda/attention_256.cu cuda/attention_512.cu
          cuda/attention_gathered_16_80.cu cuda/attention_gathered_96_256.cu cuda/fused_kernels.cu cuda/gather_kernels.cu cuda/group_kernels.cu cuda/head_kernels.cu cuda/kernel_table.cu cuda/latent_kernels.cu cuda/layer_kernels.cu cuda/matmul_kernels.cu cuda/mixture_kernels.cu cuda/qkv_kernels.cu cuda/recurrence_kernels.cu
          cuda/row_kernels.cu cuda/stream_kernels.cu cuda/tau_kernels.cu)
  # wgmma exists for this architecture alone, and the backend asks for the device's before it starts such a kernel.
  varifocal_cuda_objects(OUT sm90_objects REPORTS sm90_reports ARCHITECTURES 90a-real
    FILES cuda/attention_sm90_64_112.cu cuda/attention_sm90_128_256.cu cuda/attention_sm90_gathered_64_256.cu cuda/matmul_sm90.cu)
  list(APPEND cuda_objects ${sm90_objects})
  target_sources(varifocal_kernels PRIVATE ${cuda_host} cuda/cublaslt_products.cc cuda/cuda_device.cc cuda/cudart_graph.cc cuda/cudart_runtime.cc cuda/device_launch.cc ${cuda_objects})
  target_compile_definitions(varifocal_kernels PRIVATE VARIFOCAL_HAS_CUDA=1)
  set_source_files_properties(cuda/cublaslt_products.cc cuda/cudart_graph.cc cuda/cudart_runtime.cc cuda/device_launch.cc PROPERTIES
    COMPILE_OPTIONS "-isystem;${VARIFOCAL_CUDA_INCLUDE}")
  target_link_libraries(varifocal_kernels PUBLIC ${VARIFOCAL_CUDART} ${CMAKE_DL_LIBS} rt)
endif()

if(NOT VARIFOCAL_CUDA_EMULATOR)
  return()
endif()

# File-local names repeat here, and the same names differ between the emulator and the device.
set(CMAKE_UNITY_BUILD OFF)

# The kernels' sources compiled for the host; with the backend's sources in a build without CUDA.
add_library(varifocal_kernels_emulator STATIC
  cuda/emulator/context_switch.cc cuda/emulator/emulated_attention.cc cuda/emulator/emulated_fused.cc cuda/emulator/emulated_gathered.cc cuda/emulator/emulated_groups.cc
  cuda/emulator/emulated_head.cc cuda/emulator/emulated_latent.cc cuda/emulator/emulated_layers.cc cuda/emulator/emulated_matmul.cc cuda/emulator/emulated_mixture.cc cuda/emulator/emulated_qkv.cc cuda/emulator/emulated_recurrence.cc cuda/emulator/emulated_rows.cc
  cuda/emulator/emulated_runtime.cc cuda/emulator/emulated_sm90.cc cuda/emulator/emulated_streams.cc cuda/emulator/emulated_table.cc cuda/emulator/emulated_tau.cc cuda/emulator/fibers.cc
  cuda/emulator/hopper.cc cuda/emulator/hopper_products.cc)
# Products a lane at a time take most of the tests' time.
set_source_files_properties(cuda/emulator/hopper_products.cc PROPERTIES COMPILE_OPTIONS -O3)
if(NOT VARIFOCAL_HAS_CUDA)
  target_sources(varifocal_kernels_emulator PRIVATE ${cuda_host})
endif()
varifocal_options(varifocal_kernels_emulator)
target_link_libraries(varifocal_kernels_emulator PUBLIC varifocal_kernels_conformance)

# The table of checks: as a program for machines without GoogleTest, otherwise as tests.
add_library(varifocal_kernels_cuda_checks STATIC
  cuda/checks/ahead_checks.cc cuda/checks/checks.cc cuda/checks/decode_checks.cc cuda/checks/decode_mutant_checks.cc
  cuda/checks/device_checks.cc cuda/checks/emulated_checks.cc cuda/checks/fault_checks.cc cuda/checks/gate_checks.cc
  cuda/checks/gathered_checks.cc cuda/checks/gathered_mutants.cc cuda/checks/gathered_scene.cc cuda/checks/hopper_checks.cc
  cuda/checks/layer_bits_checks.cc cuda/checks/layout_checks.cc cuda/checks/loop_checks.cc cuda/checks/mutants.cc
  cuda/checks/plan_checks.cc cuda/checks/schedule_checks.cc cuda/checks/sm90_checks.cc cuda/checks/sm90_heads_checks.cc
  cuda/checks/sm90_product_checks.cc cuda/checks/tile_checks.cc cuda/checks/waiting_norm_checks.cc cuda/checks/wide_bits_checks.cc
  cuda/bench/plan_search.cc)
varifocal_options(varifocal_kernels_cuda_checks)
target_link_libraries(varifocal_kernels_cuda_checks PUBLIC varifocal_kernels_emulator)
if(VARIFOCAL_HAS_CUDA)
  target_compile_definitions(varifocal_kernels_cuda_checks PRIVATE VARIFOCAL_PTXAS_REPORTS="${CMAKE_CURRENT_BINARY_DIR}/cuda")
  # Of the toolkit, but not of all its packages: without it a gate is skipped.
  get_filename_component(nvcc_folder ${VARIFOCAL_NVCC} DIRECTORY)
  find_program(VARIFOCAL_CUOBJDUMP cuobjdump HINTS ${nvcc_folder})
  if(VARIFOCAL_CUOBJDUMP)
    target_compile_definitions(varifocal_kernels_cuda_checks PRIVATE VARIFOCAL_CUOBJDUMP="${VARIFOCAL_CUOBJDUMP}")
  endif()
endif()
add_executable(cuda_selfcheck cuda/checks/selfcheck.cc)
varifocal_options(cuda_selfcheck)
target_link_libraries(cuda_selfcheck PRIVATE varifocal_kernels_cuda_checks)
add_executable(gpu_bench
  cuda/bench/attention_bench.cc cuda/bench/bench_tools.cc cuda/bench/cells.cc cuda/bench/gather_prediction.cc
  cuda/bench/gpu_bench.cc cuda/bench/layer_bench.cc cuda/bench/llama_run.cc cuda/bench/model_bench.cc cuda/bench/model_prediction.cc cuda/bench/plan_search.cc
  cuda/bench/prediction.cc cuda/bench/product_bench.cc cuda/bench/prompt_prediction.cc)
varifocal_options(gpu_bench)
if(VARIFOCAL_HAS_CUDA)
  target_compile_definitions(gpu_bench PRIVATE VARIFOCAL_HAS_CUDA=1)
endif()
target_link_libraries(gpu_bench PRIVATE varifocal_kernels_emulator)
add_test(NAME cuda:gpu_bench_tiny COMMAND gpu_bench --device=emulated --tiny --rounds=1)
set_tests_properties(cuda:gpu_bench_tiny PROPERTIES TIMEOUT 300)
add_test(NAME cuda:gpu_bench_layer_ops COMMAND gpu_bench --device=emulated --tiny --rounds=1 --cell=layer_ops)
set_tests_properties(cuda:gpu_bench_layer_ops PROPERTIES TIMEOUT 300 PASS_REGULAR_EXPRESSION "\"right\": true.*rotation_and_write.*down_residual.*\"right\": true.*down_residual")
add_test(NAME cuda:gpu_bench_predict COMMAND gpu_bench --predict)
set_tests_properties(cuda:gpu_bench_predict PROPERTIES PASS_REGULAR_EXPRESSION "prefill_20_20_128_8192 . in order . 9.*16, 2 . 16384 . 24 %.*2.7b_8x32768 . 5.33, 85.90 . does not fit.*2.7b_1x1024 . 5.33, 0.34 . 1.87 . 3.50 .*2.19 to 2.33 .0.80 to 0.85.*prefill_2.7b_8192 .*2.7b . sm90 . 2.41")
add_test(NAME cuda:gpu_bench_predict_h200 COMMAND gpu_bench --predict=h200)
set_tests_properties(cuda:gpu_bench_predict_h200 PROPERTIES PASS_REGULAR_EXPRESSION "one h200.*2.7b_8x32768 . 5.33, 85.90 . 21.02 .*2.7b_1x1024 . 5.33, 0.34 . 1.31 ")
add_test(NAME cuda:gpu_bench_predict_other COMMAND gpu_bench --predict=b200)
set_tests_properties(cuda:gpu_bench_predict_other PROPERTIES PASS_REGULAR_EXPRESSION "--predict=b200 is none of h100, h200")
# The driver that compares other engines: a few cells through the whole protocol, with or without those engines.
find_program(VARIFOCAL_PYTHON3 python3)
if(VARIFOCAL_PYTHON3)
  add_test(NAME cuda:gpu_peers_tiny
    COMMAND ${VARIFOCAL_PYTHON3} recipes/gpu_peers.py --bench=$<TARGET_FILE:gpu_bench> --out=${CMAKE_CURRENT_BINARY_DIR} --tiny
            --rounds=2 --cells=ceiling|prefill_20_20_128_2048|tau_rows|cascade|decode_20_20_128_8x32768|model_decode_2.7b_1x1024|determinism|load
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(cuda:gpu_peers_tiny PROPERTIES TIMEOUT 300)
  add_test(NAME cuda:gpu_check COMMAND ${CMAKE_SOURCE_DIR}/deploy/gpu_check_test.sh $<TARGET_FILE_DIR:gpu_bench>)
  set_tests_properties(cuda:gpu_check PROPERTIES TIMEOUT 600)
endif()
if(TARGET GTest::gtest_main)
  add_executable(cuda_test cuda/checks/checks_test.cc)
  varifocal_options(cuda_test)
  target_link_libraries(cuda_test PRIVATE varifocal_kernels_cuda_checks GTest::gtest_main)
  varifocal_discover_tests(cuda_test PREFIX cuda: SLOW_TESTS Full/* PROPERTIES TIMEOUT 600)
endif()

# The runtime's and the library's callers, on fakes of both in place of libcudart and libcublasLt.
if(TARGET GTest::gtest_main AND VARIFOCAL_HAS_CUDA)
  add_library(fake_cublaslt SHARED cuda/emulator/fake_cublaslt.cc)
  target_include_directories(fake_cublaslt PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(fake_cublaslt PRIVATE -isystem ${VARIFOCAL_CUDA_INCLUDE})
  add_executable(cudart_test
    cuda/checks/cudart_test.cc cuda/checks/device_turns_test.cc cuda/cublaslt_products.cc cuda/cudart_graph.cc cuda/cudart_runtime.cc
    cuda/device_error.cc cuda/device_launch.cc cuda/device_turns.cc cuda/emulator/fake_cudart.cc cuda/step_graphs.cc)
  varifocal_options(cudart_test)
  target_compile_options(cudart_test PRIVATE -isystem ${VARIFOCAL_CUDA_INCLUDE})
  target_compile_definitions(cudart_test PRIVATE VARIFOCAL_FAKE_CUBLASLT="$<TARGET_FILE:fake_cublaslt>")
  target_link_libraries(cudart_test PRIVATE GTest::gmock GTest::gtest_main ${CMAKE_DL_LIBS})
  add_dependencies(cudart_test fake_cublaslt)
  add_dependencies(cuda_test cudart_test)  # whoever builds cuda_test runs both
  gtest_discover_tests(cudart_test DISCOVERY_TIMEOUT 60 TEST_PREFIX cuda: PROPERTIES TIMEOUT 60)
endif()
