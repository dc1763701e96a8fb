# CUDA: detection, and compilation of .cu files.
#
#   VARIFOCAL_CUDA=OFF    no CUDA (set by the CPU presets)
#   VARIFOCAL_CUDA=AUTO   CUDA where nvcc is found (preset `cuda`, and builds of kernels/ alone)
#   VARIFOCAL_CUDA=ON     an error where nvcc is not found
#
# nvcc is called directly: CMake 3.25 does not support C++20 for it, detection takes seconds at configure time, and the
# register report of every file is stored with its object, for the gate test. Only the static runtime is linked, so that
# programs start without driver and toolkit.
set(VARIFOCAL_CUDA_DEFAULT OFF)
if(VARIFOCAL_KERNELS_ONLY)
  set(VARIFOCAL_CUDA_DEFAULT AUTO)
endif()
set(VARIFOCAL_CUDA ${VARIFOCAL_CUDA_DEFAULT} CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set(VARIFOCAL_CUDA_ARCHITECTURES "80;90a-real" CACHE STRING "Architectures of the CUDA backend, as CMAKE_CUDA_ARCHITECTURES")

set(VARIFOCAL_HAS_CUDA OFF)
if(NOT VARIFOCAL_CUDA STREQUAL "OFF")
  find_program(VARIFOCAL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(VARIFOCAL_NVCC)
    file(REAL_PATH ${VARIFOCAL_NVCC} nvcc)
    get_filename_component(cuda_root ${nvcc}/../.. ABSOLUTE)
    find_path(VARIFOCAL_CUDA_INCLUDE cuda_runtime_api.h HINTS ${cuda_root}/include ${cuda_root}/targets/x86_64-linux/include NO_DEFAULT_PATH)
    find_library(VARIFOCAL_CUDART cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/targets/x86_64-linux/lib NO_DEFAULT_PATH)
  endif()
  if(VARIFOCAL_NVCC AND VARIFOCAL_CUDA_INCLUDE AND VARIFOCAL_CUDART)
    set(VARIFOCAL_HAS_CUDA ON)
    message(STATUS "CUDA: ${VARIFOCAL_NVCC}, for ${VARIFOCAL_CUDA_ARCHITECTURES}")
  elseif(VARIFOCAL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "VARIFOCAL_CUDA is ON, and nvcc with its headers and libcudart_static was not found; set CUDA_HOME")
  else()
    message(STATUS "CUDA: nvcc not found; this build has no CUDA backend")
  endif()
endif()

if(VARIFOCAL_HAS_CUDA AND VARIFOCAL_STATIC STREQUAL "ON")
  message(FATAL_ERROR "a wholly static program cannot load CUDA's driver; build with the preset cuda-portable")
endif()

# The emulator needs no nvcc.
set(VARIFOCAL_CUDA_EMULATOR_DEFAULT OFF)
if(VARIFOCAL_KERNELS_ONLY OR NOT VARIFOCAL_CUDA STREQUAL "OFF")
  set(VARIFOCAL_CUDA_EMULATOR_DEFAULT ON)
endif()
option(VARIFOCAL_CUDA_EMULATOR "Build the emulator that runs the CUDA kernels on the host, and their tests"
       ${VARIFOCAL_CUDA_EMULATOR_DEFAULT})
if(VARIFOCAL_KERNELS_ONLY AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# varifocal_cuda_objects(OUT objects REPORTS reports [ARCHITECTURES 90a-real ..] FILES a.cu ..): compiles each file, for
# VARIFOCAL_CUDA_ARCHITECTURES unless others are given; `reports` are the ptxas outputs.
function(varifocal_cuda_objects)
  cmake_parse_arguments(C "" "OUT;REPORTS" "ARCHITECTURES;FILES" ${ARGN})
  if(NOT C_ARCHITECTURES)
    set(C_ARCHITECTURES ${VARIFOCAL_CUDA_ARCHITECTURES})
  endif()
  set(flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -Xptxas=-v -I${CMAKE_SOURCE_DIR} -Xcompiler=-fPIC,-Wall,-Wextra)
  if(VARIFOCAL_WERROR)
    list(APPEND flags -Werror=all-warnings -Xcompiler=-Werror)
  endif()
  foreach(architecture ${C_ARCHITECTURES})
    string(REGEX REPLACE "-(real|virtual)$" "" number ${architecture})
    if(architecture MATCHES "-virtual$")
      list(APPEND flags -gencode=arch=compute_${number},code=compute_${number})
    elseif(architecture MATCHES "-real$")
      list(APPEND flags -gencode=arch=compute_${number},code=sm_${number})
    else()
      list(APPEND flags -gencode=arch=compute_${number},code=[sm_${number},compute_${number}])
    endif()
  endforeach()
  set(objects)
  set(reports)
  foreach(f ${C_FILES})
    get_filename_component(name ${f} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
    set(report ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.ptxas)
    add_custom_command(OUTPUT ${object} ${report}
      COMMAND ${CMAKE_COMMAND} -DREPORT=${report} -P ${CMAKE_SOURCE_DIR}/cmake/RunAndKeep.cmake --
              ${CCACHE_PROGRAM} ${VARIFOCAL_NVCC} ${flags} -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${f} -o ${object}
      DEPENDS ${f} ${CMAKE_SOURCE_DIR}/cmake/RunAndKeep.cmake
      DEPFILE ${object}.d VERBATIM COMMENT "nvcc ${f}")
    list(APPEND objects ${object})
    list(APPEND reports ${report})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  set(${C_OUT} ${objects} PARENT_SCOPE)
  set(${C_REPORTS} ${reports} PARENT_SCOPE)
endfunction()
