# install.cmake - what `make install` leaves behind: headers, both libraries, the command with its manual pages and
# completion scripts, and how to find them.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
set_target_properties(lockstep_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set_target_properties(lockstep_static PROPERTIES EXPORT_NAME static)

install(TARGETS lockstep lockstep_static EXPORT lockstepTargets)
install(TARGETS lockstep_command)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

# Programs that use CMake: find_package(lockstep), then link with lockstep::lockstep or lockstep::static.
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})
set(LOCKSTEP_DEPENDENCIES "")
foreach(name JPEG PNG ZLIB)
    if(LOCKSTEP_HAS_${name})
        list(APPEND LOCKSTEP_DEPENDENCIES ${name})
    endif()
endforeach()
configure_package_config_file(cmake/lockstepConfig.cmake.in lockstepConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(lockstepConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package_dir})

# All others: pkg-config. The prefix is found from where the file lies, so the tree may be moved.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The command itself writes its manual pages and completion scripts, so it must run here.
if(NOT CMAKE_CROSSCOMPILING)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/pages.stamp
        COMMAND ${CMAKE_SOURCE_DIR}/tools/write_pages.sh $<TARGET_FILE:lockstep_command> ${CMAKE_BINARY_DIR}
        COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/pages.stamp
        DEPENDS lockstep_command tools/write_pages.sh)
    add_custom_target(pages ALL DEPENDS ${CMAKE_BINARY_DIR}/pages.stamp)
    add_dependencies(product pages)
    install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()
