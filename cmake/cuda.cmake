# cuda.cmake - is there a CUDA toolkit to build plugins/device-cuda with? Sets LOCKSTEP_HAS_CUDA and what follows from it.
#
# LOCKSTEP_WITH_CUDA          AUTO (where nvcc works), ON (it must), OFF
# LOCKSTEP_CUDA_ARCHITECTURES as CMAKE_CUDA_ARCHITECTURES; "native" builds fastest, for the GPU of this machine alone
# LOCKSTEP_CUDA_HINTS         folders with libraries that are elsewhere, such as nvidia/cudnn of a Python installation
#
# nvcc is searched for in CUDACXX, PATH, CUDA_PATH and /usr/local/cuda. enable_language(CUDA) stops CMake if the compiler does
# not work, so a toolkit that is incomplete, or too old for the C++ compiler, is detected before.
include(CheckLanguage)

set(LOCKSTEP_WITH_CUDA AUTO CACHE STRING "Build for CUDA: AUTO (where it is found), ON (it must be there), OFF")
set_property(CACHE LOCKSTEP_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LOCKSTEP_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "GPUs to compile for: 8.x, 9.0, and PTX for newer ones")
set(LOCKSTEP_CUDA_HINTS "" CACHE STRING "Folders with include/ and lib/ of cuBLASLt or cuDNN")
set(LOCKSTEP_HAS_CUDA NO)
set(LOCKSTEP_CUDA_LACKS "no nvcc in PATH, CUDA_PATH or /usr/local/cuda")

set(wanted ${LOCKSTEP_WITH_CUDA})
if(NOT wanted)
    set(LOCKSTEP_CUDA_LACKS "LOCKSTEP_WITH_CUDA is OFF")
elseif(CMAKE_CROSSCOMPILING OR LOCKSTEP_SANITIZE OR LOCKSTEP_FUZZ)
    set(wanted OFF)
    set(LOCKSTEP_CUDA_LACKS "cross builds, sanitizers and fuzzers do not support CUDA")
endif()
if(wanted)
    get_filename_component(beside "$ENV{CUDACXX}" DIRECTORY)
    find_program(LOCKSTEP_NVCC nvcc HINTS ${beside} ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
                 PATH_SUFFIXES bin)
    mark_as_advanced(LOCKSTEP_NVCC)
    if(LOCKSTEP_NVCC)
        execute_process(COMMAND ${LOCKSTEP_NVCC} --version OUTPUT_VARIABLE words ERROR_QUIET)
        string(REGEX MATCH "release ([0-9.]+)" words "${words}")
        set(LOCKSTEP_CUDA_VERSION "${CMAKE_MATCH_1}")
        if(LOCKSTEP_CUDA_VERSION VERSION_LESS 12.0)
            set(LOCKSTEP_CUDA_LACKS "${LOCKSTEP_NVCC} is of CUDA ${LOCKSTEP_CUDA_VERSION}, 12.0 is needed")
        else()
            set(ENV{CUDACXX} ${LOCKSTEP_NVCC})
            check_language(CUDA)
            set(LOCKSTEP_CUDA_LACKS "${LOCKSTEP_NVCC} compiles nothing here: see CMakeFiles/CMakeError.log")
        endif()
    endif()
endif()

if(wanted AND CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES ${LOCKSTEP_CUDA_ARCHITECTURES})
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
    enable_language(CUDA)
    if(CCACHE)
        set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
    endif()
    # With its lib64 and targets/<machine> a toolkit has many places for one thing. What nvcc brings comes before the hints:
    # Python wheels have headers of the runtime too, though not all of them.
    get_filename_component(toolkit ${CMAKE_CUDA_COMPILER} REALPATH)
    get_filename_component(toolkit ${toolkit}/../.. ABSOLUTE)
    file(GLOB targets ${toolkit}/targets/*)
    set(LOCKSTEP_CUDA_PLACES ${toolkit} ${targets} ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}/.. ${LOCKSTEP_CUDA_HINTS})
    find_path(LOCKSTEP_CUDART_INCLUDE cuda_runtime_api.h HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES include)
    find_path(LOCKSTEP_CUBLASLT_INCLUDE cublasLt.h HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES include)
    find_library(LOCKSTEP_CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 HINTS ${LOCKSTEP_CUDA_PLACES}
                 PATH_SUFFIXES lib64 lib)
    find_path(LOCKSTEP_CUDNN_INCLUDE cudnn_graph.h HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES include)
    find_library(LOCKSTEP_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES lib64 lib)
    # NCCL is loaded while a program runs: the plug-in needs neither to be built.
    find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES include)
    find_library(LOCKSTEP_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${LOCKSTEP_CUDA_PLACES} PATH_SUFFIXES lib64 lib)
    mark_as_advanced(LOCKSTEP_NCCL_INCLUDE LOCKSTEP_NCCL_LIBRARY LOCKSTEP_CUDART_INCLUDE LOCKSTEP_CUBLASLT_INCLUDE LOCKSTEP_CUBLASLT_LIBRARY LOCKSTEP_CUDNN_INCLUDE
                     LOCKSTEP_CUDNN_LIBRARY)
    if(LOCKSTEP_CUDART_INCLUDE AND LOCKSTEP_CUBLASLT_INCLUDE AND LOCKSTEP_CUBLASLT_LIBRARY)
        set(LOCKSTEP_HAS_CUDA YES)
    else()
        set(LOCKSTEP_CUDA_LACKS "the toolkit of ${CMAKE_CUDA_COMPILER} has no cuBLASLt")
    endif()
    if(LOCKSTEP_CUDNN_INCLUDE AND LOCKSTEP_CUDNN_LIBRARY)
        file(STRINGS ${LOCKSTEP_CUDNN_INCLUDE}/cudnn_version.h version REGEX "#define CUDNN_(MAJOR|MINOR) ")
        string(REGEX REPLACE "[^0-9;]" "" version "${version}")
        string(REPLACE ";" "." LOCKSTEP_CUDNN_VERSION "${version}")
    endif()
endif()
if(NOT LOCKSTEP_HAS_CUDA AND LOCKSTEP_WITH_CUDA AND NOT LOCKSTEP_WITH_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "LOCKSTEP_WITH_CUDA=${LOCKSTEP_WITH_CUDA}, but ${LOCKSTEP_CUDA_LACKS}. "
                        "Install the CUDA toolkit 12.0 or newer with cuBLAS, and g++, or leave the option at AUTO.")
endif()
