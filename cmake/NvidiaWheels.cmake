# nvidia_wheels: the folders of NVIDIA's wheels, nvidia/* in every Python's site-packages, and
# find_nvidia_library, which looks for a library with its header beside the CUDA toolkit and there.
execute_process(COMMAND python3 -c "import sys; print(';'.join(sys.path))"
  OUTPUT_VARIABLE _sites ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
list(PREPEND _sites "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")
list(APPEND _sites "$ENV{HOME}/.local/lib/python3*/site-packages"
  /usr/local/lib/python3*/site-packages /usr/local/lib/python3*/dist-packages
  /usr/lib/python3/dist-packages)
set(nvidia_wheels)
foreach(_site ${_sites})
  file(GLOB _found "${_site}/nvidia/*")
  list(APPEND nvidia_wheels ${_found})
endforeach()
list(REMOVE_DUPLICATES nvidia_wheels)

# find_nvidia_library(NAME library header version_header) sets NAME_INCLUDE_DIR, NAME_LIBRARY and
# NAME_VERSION. The library beside the header comes first, so that the two belong together.
macro(find_nvidia_library name library header version_header)
  find_path(${name}_INCLUDE_DIR ${header}
    HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${nvidia_wheels} PATH_SUFFIXES include)
  cmake_path(GET ${name}_INCLUDE_DIR PARENT_PATH _beside)
  find_library(${name}_LIBRARY ${library} HINTS ${_beside} ${CUDAToolkit_LIBRARY_DIR}
    PATHS ${nvidia_wheels} PATH_SUFFIXES lib lib64)
  if(EXISTS "${${name}_INCLUDE_DIR}/${version_header}")
    file(STRINGS "${${name}_INCLUDE_DIR}/${version_header}" _numbers
      REGEX "#define ${name}_(MAJOR|MINOR|PATCH|PATCHLEVEL) ")
    string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]*([0-9]+)[^0-9]*([0-9]+).*" "\\1.\\2.\\3"
      ${name}_VERSION "${_numbers}")
  endif()
  mark_as_advanced(${name}_INCLUDE_DIR ${name}_LIBRARY)
endmacro()

# make_nvidia_target(NAME target)
macro(make_nvidia_target name target)
  if(${name}_FOUND AND NOT TARGET ${target})
    add_library(${target} SHARED IMPORTED)
    set_target_properties(${target} PROPERTIES
      IMPORTED_LOCATION "${${name}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
  endif()
endmacro()
