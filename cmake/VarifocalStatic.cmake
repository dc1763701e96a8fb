# Static linking of packages whose Debian CMake files only provide shared libraries (the `portable` preset).
#
# Debian installs archives and shared libraries, but its imported targets name the latter. Every imported target that has
# an archive is redirected to it, and the libraries bundled in gRPC's shared library are added.
# LIBRARIES links all but the C library statically: CUDA's driver and cuBLAS are loaded at run time, which a fully static
# program cannot do.
set(VARIFOCAL_STATIC OFF CACHE STRING "Link programs statically, to carry them to a machine without our packages: OFF, LIBRARIES or ON")

function(varifocal_prefer_archives)
  get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY IMPORTED_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY")
      # From pkg-config: libraries by path, RE2 by name.
      get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
      set(archives)
      foreach(library ${libraries})
        string(REGEX REPLACE "\\.so$" ".a" archive "${library}")
        if(IS_ABSOLUTE "${archive}" AND EXISTS "${archive}")
          set(library ${archive})
        elseif(library MATCHES "^(-l)?re2$")
          set(library -l:libre2.a)
        endif()
        list(APPEND archives ${library})
      endforeach()
      if(libraries)
        set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
      endif()
      continue()
    endif()
    if(NOT type STREQUAL "SHARED_LIBRARY" AND NOT type STREQUAL "UNKNOWN_LIBRARY")
      continue()
    endif()
    foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE IMPORTED_LOCATION_RELEASE)
      get_target_property(location ${target} ${property})
      if(location MATCHES "\\.so")
        string(REGEX REPLACE "\\.so.*$" ".a" archive ${location})
        if(EXISTS ${archive})
          set_target_properties(${target} PROPERTIES ${property} ${archive} IMPORTED_SONAME_NONE "" IMPORTED_SONAME_RELEASE "")
        endif()
      endif()
    endforeach()
  endforeach()
  file(GLOB abseil /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libabsl_*.a)
  set(inside grpc gpr upb address_sorting re2 cares z ssl crypto)
  list(TRANSFORM inside REPLACE "(.+)" "-l:lib\\1.a")
  set_property(TARGET gRPC::grpc++ APPEND PROPERTY INTERFACE_LINK_LIBRARIES
               -Wl,--start-group ${inside} ${abseil} -Wl,--end-group)
endfunction()
