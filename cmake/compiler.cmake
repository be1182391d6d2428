# compiler.cmake - flags for everything that is compiled here.

# A newer compiler may know new warnings, and the code that sanitizers add misleads those about uninitialised variables.
# With AUTO a warning stops only the compilers every change is tried with, in plain builds.
set(LOCKSTEP_WARNINGS_FATAL ${LOCKSTEP_WERROR})
if(LOCKSTEP_WERROR STREQUAL "AUTO")
    set(LOCKSTEP_WARNINGS_FATAL OFF)
    if(LOCKSTEP_SANITIZE)
        set(LOCKSTEP_WARNINGS_FATAL OFF)
    elseif(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 13)
        set(LOCKSTEP_WARNINGS_FATAL ON)
    elseif(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 15)
        set(LOCKSTEP_WARNINGS_FATAL ON)
    endif()
endif()

# Assembly of an unrolled kernel is one long string.
set(flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
          -Wno-overlength-strings -fno-math-errno -fno-trapping-math)
if(LOCKSTEP_WARNINGS_FATAL)
    list(APPEND flags -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C>:${flags}>") # plugins/device-cuda has its own for nvcc
if(LOCKSTEP_SANITIZE)
    add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
    string(REGEX MATCHALL "address|thread" sanitizers "${LOCKSTEP_SANITIZE}")
    list(TRANSFORM sanitizers TOUPPER)
    list(TRANSFORM sanitizers PREPEND LS_SANITIZE_)
    add_compile_definitions(${sanitizers})
endif()
if(LOCKSTEP_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "LOCKSTEP_FUZZ needs libFuzzer, which comes with clang: set CC=clang")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link) # the library reports which branches it takes
endif()

find_program(CCACHE ccache)
if(CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
mark_as_advanced(CCACHE)
