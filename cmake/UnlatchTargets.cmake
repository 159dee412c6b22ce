# How a target is made here: unlatch_library (one a directory) and unlatch_test; and unlatch_bundled.
include(GNUInstallDirs)

add_library(unlatch_options INTERFACE)
target_compile_features(unlatch_options INTERFACE cxx_std_20)
target_compile_options(unlatch_options INTERFACE
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>>
  $<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>>
  $<BUILD_INTERFACE:$<$<AND:$<BOOL:${UNLATCH_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>>
  $<BUILD_INTERFACE:$<$<AND:$<BOOL:${UNLATCH_WERROR}>,$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>>)
if(UNLATCH_SANITIZE)
  # GCC 12 sees overflows in instrumented strings that are none; other builds keep these warnings.
  target_compile_options(unlatch_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:
    -fsanitize=${UNLATCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict>)
  target_link_options(unlatch_options INTERFACE -fsanitize=${UNLATCH_SANITIZE})
endif()
if(UNLATCH_FUZZ)  # coverage for libFuzzer; only the fuzzers link then
  target_compile_options(unlatch_options INTERFACE
    $<IF:$<CXX_COMPILER_ID:GNU>,-fsanitize-coverage=trace-pc$<COMMA>trace-cmp,-fsanitize=fuzzer-no-link>)
endif()

# What most files include. Only the sanitizer presets parse it once: the others compile each file by
# itself, so that a missing include is found.
set(unlatch_common_headers
  <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <span> <string> <string_view>
  <vector> <fmt/format.h>)

# unlatch_library(name HEADERS ... SOURCES ... LINKS ... PRIVATE_LINKS ...)
# makes the static library unlatch_<name>, alias unlatch::<name>.
function(unlatch_library name)
  cmake_parse_arguments(arg "" "" "HEADERS;SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  set(target unlatch_${name})
  add_library(${target} STATIC)
  add_library(unlatch::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_sources(${target}
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_link_libraries(${target} PUBLIC ${arg_LINKS} PRIVATE unlatch_options ${arg_PRIVATE_LINKS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(UNLATCH_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE ${unlatch_common_headers})
  endif()
endfunction()

# unlatch_test(name SOURCES ... LINKS ...) makes one GoogleTest binary and registers its tests.
function(unlatch_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE unlatch_options ${arg_LINKS} GTest::gmock_main)
  target_compile_definitions(${name} PRIVATE
    UNLATCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}" UNLATCH_PROGRAM="$<TARGET_FILE:unlatch>")
  # The undefined-behaviour checks are for the libraries: in test code they double its compile time.
  if(UNLATCH_SANITIZE MATCHES "undefined")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  if(UNLATCH_PRECOMPILED_HEADERS)
    target_precompile_headers(${name} PRIVATE
      ${unlatch_common_headers} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# unlatch_bundled(target) puts a program into the folder that tools/bundle makes; it looks there for
# its libraries, and for theirs, which RUNPATH would not: hence the older tag.
add_custom_target(bundle_programs)
function(unlatch_bundled target)
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
  # Where it is built, too: room for a path to be put in later would be empty entries, which are the
  # current folder.
  set_target_properties(${target} PROPERTIES
    INSTALL_RPATH "$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS ${target} RUNTIME DESTINATION bin COMPONENT bundle EXCLUDE_FROM_ALL)
  add_dependencies(bundle_programs ${target})
endfunction()
