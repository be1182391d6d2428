# dependencies.cmake - libraries that are used where they are found: pictures and compressed files.
#
# Each has an option LOCKSTEP_WITH_<NAME>: AUTO uses it where it is found, ON fails where it is not, OFF leaves it out.
# Code sees the macro of the same name. What was found is in LOCKSTEP_LIBRARIES, for linking, and said in the summary.
include(CheckSymbolExists)

set(LOCKSTEP_LIBRARIES "")
set(LOCKSTEP_PRIVATE_LIBS "") # the same for pkg-config

# ls_dependency(NAME target flag "packages that bring it") - sets LOCKSTEP_HAS_<NAME>
macro(ls_dependency name target flag packages)
    set(LOCKSTEP_WITH_${name} AUTO CACHE STRING "Use ${name}: AUTO (where it is found), ON (it must be there), OFF")
    set_property(CACHE LOCKSTEP_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
    set(LOCKSTEP_HAS_${name} NO)
    if(LOCKSTEP_WITH_${name})
        find_package(${name} QUIET)
        if(TARGET ${target})
            set(LOCKSTEP_HAS_${name} YES)
        endif()
        if(COMMAND ls_check_${name} AND LOCKSTEP_HAS_${name})
            cmake_language(CALL ls_check_${name})
        endif()
        if(LOCKSTEP_HAS_${name})
            target_compile_definitions(lockstep_objects PRIVATE LOCKSTEP_WITH_${name})
            target_link_libraries(lockstep_objects PRIVATE ${target})
            list(APPEND LOCKSTEP_LIBRARIES ${target})
            string(APPEND LOCKSTEP_PRIVATE_LIBS "${flag} ")
        elseif(NOT LOCKSTEP_WITH_${name} STREQUAL "AUTO")
            message(FATAL_ERROR "LOCKSTEP_WITH_${name}=${LOCKSTEP_WITH_${name}}, but it was not found. "
                                "Install it (${packages}) or leave the option at AUTO.")
        endif()
    endif()
endmacro()

# Other JPEG libraries have the same name, but cannot decode a part of a picture.
macro(ls_check_JPEG)
    set(CMAKE_REQUIRED_LIBRARIES JPEG::JPEG)
    check_symbol_exists(jpeg_crop_scanline "stddef.h;stdio.h;jpeglib.h" LOCKSTEP_JPEG_IS_TURBO)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(LOCKSTEP_HAS_JPEG ${LOCKSTEP_JPEG_IS_TURBO})
endmacro()

ls_dependency(JPEG JPEG::JPEG -ljpeg "Debian: libjpeg-dev, which is libjpeg-turbo")
ls_dependency(PNG PNG::PNG -lpng "Debian: libpng-dev")
ls_dependency(ZLIB ZLIB::ZLIB -lz "Debian: zlib1g-dev")
