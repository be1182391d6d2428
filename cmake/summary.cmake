# summary.cmake - the last words of the configure step: what was found and what that gives.

function(summary_line label text)
    string(LENGTH "${label}" length)
    math(EXPR gap "12 - ${length}")
    string(REPEAT " " ${gap} padding)
    message(STATUS "  ${label}${padding}${text}")
endfunction()

message(STATUS "Lockstep ${PROJECT_VERSION}")

set(strictness "warnings are errors")
if(NOT LOCKSTEP_WARNINGS_FATAL)
    set(strictness "warnings are only shown")
endif()
summary_line(compiler "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}, ${strictness}")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    summary_line(kernels "arm64: reference, NEON, NEON with BF16; the best that runs is chosen at start")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    summary_line(kernels "x86-64: reference, AVX2, AVX-512 (BF16), AMX; the best that runs is chosen at start")
else()
    summary_line(kernels "${CMAKE_SYSTEM_PROCESSOR}: reference only, right but slow")
endif()

# dependency_line(NAME label "found: what it gives" "not found: what is missing")
function(dependency_line name label found missing)
    if(LOCKSTEP_HAS_${name})
        summary_line(${label} "${found}")
    elseif(LOCKSTEP_WITH_${name})
        summary_line(${label} "not found: ${missing}")
    else()
        summary_line(${label} "switched off: ${missing}")
    endif()
endfunction()
dependency_line(JPEG jpeg "libjpeg-turbo: photos of every kind are read, and written"
                "only ordinary photos are read (Debian: libjpeg-dev)")
dependency_line(PNG png "libpng ${PNG_VERSION_STRING}: PNG pictures are read"
                "PNG files are refused (Debian: libpng-dev)")
dependency_line(ZLIB zlib "zlib ${ZLIB_VERSION_STRING}: gzip files are read"
                "gzip files are refused (Debian: zlib1g-dev)")
dependency_line(UCX ucx "UCX ${LOCKSTEP_UCX_VERSION}: hosts talk through comm-ucx, by InfiniBand, RoCE or TCP"
                "no comm-ucx (1.13 or newer; Debian: libucx-dev)")
string(REPLACE ";" ", comm-" mpis "${LOCKSTEP_TRANSPORTS}")
string(REGEX REPLACE "^ucx,? ?" "" mpis "${mpis}")
dependency_line(MPI mpi "under mpirun hosts talk through ${mpis}"
                "no plug-in for mpirun (Debian: libopenmpi-dev, libmpich-dev)")
dependency_line(ZMQ notebooks "libzmq: lockstep-kernel runs C in Jupyter"
                "no lockstep-kernel for Jupyter (Debian: libzmq3-dev)")
set(convolutions ", cuDNN ${LOCKSTEP_CUDNN_VERSION}")
if(NOT LOCKSTEP_CUDNN_VERSION VERSION_GREATER_EQUAL 9.0)
    set(convolutions "; without cuDNN 9 convolutions run on the CPU")
endif()
dependency_line(CUDA cuda "CUDA ${LOCKSTEP_CUDA_VERSION}${convolutions}: NVIDIA GPUs are used, code for ${LOCKSTEP_CUDA_ARCHITECTURES}"
                "GPUs are not used (${LOCKSTEP_CUDA_LACKS})")

if(LOCKSTEP_SANITIZE)
    summary_line(sanitizer "${LOCKSTEP_SANITIZE}")
endif()
if(CCACHE)
    summary_line(ccache "found: a second build is quick")
endif()
if(LOCKSTEP_TESTS AND NOT CMAKE_CROSSCOMPILING AND NOT LOCKSTEP_SANITIZE)
    if(CROSS_COMPILER AND CROSS_EMULATOR)
        summary_line(tests "the kernels of ${CROSS_ARCHITECTURE} are compiled and run under qemu as well")
    else()
        summary_line(tests "no cross compiler or no qemu: the kernels of ${CROSS_ARCHITECTURE} are not tested")
    endif()
endif()
summary_line(install "${CMAKE_INSTALL_PREFIX}")
