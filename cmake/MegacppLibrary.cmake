# SPDX-License-Identifier: Apache-2.0
# megacpp_library(NAME x [SOURCES ...] [TESTS ...] [DEPS folder...] [LIBS external...] [OPTIONAL external...] [ONE_BY_ONE]
#                 [ROWS_TOGETHER] [LEVEL -Og] [LEVEL_SANITIZED -O1])
#   The library megacpp::x of the folder x of megacpp/ and, when it has TESTS, the program x_test with ctest label unit.
#   Files in a sub-folder named as an OPTIONAL external are built when that external was found, which also defines
#   MEGACPP_HAS_<NAME> for everyone who uses the library. ONE_BY_ONE: MEGACPP_UNITY does not apply, as where files are
#   alike and call their parts by the same names. ROWS_TOGETHER: the rows of a table of tests share a process, as where they
#   are hundreds of quick ones or compare with the same run; see ListTests.cmake. LEVEL: its level of optimization in Release
#   builds, in place of the preset's: -Og, which compiles in half the time of -O2, where neither a step nor a plan waits for
#   the folder; -O1, in three quarters, where plans do.
#   LEVEL_SANITIZED: the level in sanitized builds, which otherwise have none: for what would run for minutes.
# megacpp_test(NAME x SOURCES ... [DEPS folder...] [LIBS external...] [OPTIONAL external...] [LABEL unit] [ROWS_TOGETHER]
#              [REPLACES_PARTS])
#   A test program of its own, for what needs more folders than its subject may use; none when no source is left.
#   REPLACES_PARTS: it defines functions of a library itself, in place of the library's.
# megacpp_bench(SOURCES ... [DEPS folder...])
#   The benchmark program megacpp_bench.
# DEPS are folders above this one in MEGACPP_FOLDERS. LIBS are names of MegacppDependencies.cmake.
# Lists are written one entry a line and sorted; tools/list_sources keeps SOURCES and TESTS.

function(megacpp_check_order name)
  list(FIND MEGACPP_FOLDER_NAMES ${name} own)
  if(own EQUAL -1)
    message(FATAL_ERROR "the folder ${name} is not in cmake/MegacppFolders.cmake")
  endif()
  foreach(dep IN LISTS ARGN)
    list(FIND MEGACPP_FOLDER_NAMES ${dep} above)
    if(above EQUAL -1 OR NOT above LESS own)
      message(FATAL_ERROR "megacpp/${name} may not depend on '${dep}': only folders above it in cmake/MegacppFolders.cmake")
    endif()
  endforeach()
endfunction()

function(megacpp_check_files name)
  foreach(file IN LISTS ARGN)
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${file}")
      message(FATAL_ERROR "${name}: listed file ${file} does not exist. Run tools/list_sources.")
    endif()
  endforeach()
endfunction()

# In the caller's lists, for what OPTIONAL names and is not there.
macro(megacpp_leave_out_missing)
  foreach(optional IN LISTS arg_OPTIONAL)
    if(NOT TARGET megacpp_external::${optional})
      list(FILTER arg_SOURCES EXCLUDE REGEX "^${optional}/")
      list(FILTER arg_TESTS EXCLUDE REGEX "^${optional}/")
      list(REMOVE_ITEM arg_OPTIONAL ${optional})
    endif()
  endforeach()
endmacro()

# Builds from nothing parse the headers of others once for every level of optimization, which g++ takes from the
# precompiled header, not from the command line. Daily builds do not: they have ccache, which works better without.
function(megacpp_share_headers target level)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT MEGACPP_SANITIZE)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY "MEGACPP_HEADERS_OF_LEVEL${level}")
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    return()
  endif()
  set_property(GLOBAL PROPERTY "MEGACPP_HEADERS_OF_LEVEL${level}" ${target})
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <fmt/format.h> <fmt/ranges.h> <functional> <map> <memory>
    <nlohmann/json.hpp> <optional> <set> <span> <sstream> <string> <string_view> <utility> <vector>)
endfunction()

# Files that are compiled together parse their headers once: a build from nothing takes half the time, a change of one
# file compiles its batch. So names in anonymous namespaces are distinct within a folder, and within a test program. The
# batches of a target, of at most that many files, are alike in size.
function(megacpp_compile_in_batches target most)
  if(NOT MEGACPP_UNITY)
    return()
  endif()
  get_target_property(files ${target} SOURCES)
  list(LENGTH files count)
  math(EXPR batches "(${count} + ${most} - 1) / ${most}")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  # g++ takes the files of a batch for headers, in which types of an anonymous namespace would differ between users.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# The archives of libraries and of all below them, as megacpp_note_archives has noted them.
function(megacpp_archives_of archives)
  set(found "")
  foreach(library IN LISTS ARGN)
    string(REPLACE "::" "_" library ${library})
    get_property(below GLOBAL PROPERTY MEGACPP_ARCHIVES_${library})
    list(APPEND found ${below})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${archives} ${found} PARENT_SCOPE)
endfunction()

# Of a library with these DEPS, for megacpp_prefer_archives.
function(megacpp_note_archives target)
  megacpp_archives_of(archives ${ARGN})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND archives $<TARGET_FILE:${target}>)
  endif()
  set_property(GLOBAL PROPERTY MEGACPP_ARCHIVES_${target} ${archives})
endfunction()

# Inline functions that both a test and the libraries hold are taken from whoever the linker sees first. Seen after its
# tests, which are not optimized, the code under test would run through theirs: plans took a third longer.
function(megacpp_prefer_archives target)
  if(APPLE OR NOT CMAKE_BUILD_TYPE STREQUAL "Release")
    return()
  endif()
  megacpp_archives_of(archives ${ARGN})
  if(archives)
    target_link_options(${target} PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive)
  endif()
endfunction()

function(megacpp_library)
  cmake_parse_arguments(arg "ONE_BY_ONE;ROWS_TOGETHER" "NAME;LEVEL;LEVEL_SANITIZED" "SOURCES;TESTS;DEPS;LIBS;OPTIONAL" ${ARGN})
  megacpp_check_order(${arg_NAME} ${arg_DEPS})
  megacpp_check_files(${arg_NAME} ${arg_SOURCES} ${arg_TESTS})
  megacpp_leave_out_missing()
  list(TRANSFORM arg_DEPS PREPEND megacpp::)
  list(TRANSFORM arg_LIBS PREPEND megacpp_external::)

  set(target megacpp_${arg_NAME})
  set(scope PUBLIC)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:megacpp_flags>)
    if(MEGACPP_SANITIZE)
      set(arg_LEVEL "${arg_LEVEL_SANITIZED}")
    elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
      set(arg_LEVEL "")
    endif()
    target_compile_options(${target} PRIVATE ${arg_LEVEL})
    megacpp_share_headers(${target} "${arg_LEVEL}")
    if(NOT arg_ONE_BY_ONE)
      megacpp_compile_in_batches(${target} 28)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(megacpp::${arg_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_NAME})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${target} ${scope} ${arg_DEPS} ${arg_LIBS} Threads::Threads)
  set_property(GLOBAL APPEND PROPERTY MEGACPP_LIBRARIES ${target})
  megacpp_note_archives(${target} ${arg_DEPS})
  foreach(optional IN LISTS arg_OPTIONAL)
    string(TOUPPER ${optional} upper)
    target_compile_definitions(${target} PUBLIC MEGACPP_HAS_${upper})
    get_target_property(linked megacpp_external::${optional} INTERFACE_LINK_LIBRARIES)
    if(linked)  # a library, which users of the installed package link too
      target_link_libraries(${target} PRIVATE megacpp_external::${optional})
    else()
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:megacpp_external::${optional}>)
    endif()
  endforeach()

  if(MEGACPP_TESTS AND arg_TESTS)
    megacpp_add_gtest(${arg_NAME}_test unit ${arg_TESTS})
    if(NOT arg_ONE_BY_ONE)
      megacpp_compile_in_batches(${arg_NAME}_test 14)
    endif()
    target_link_libraries(${arg_NAME}_test PRIVATE ${target})
    megacpp_prefer_archives(${arg_NAME}_test ${target})
    set_target_properties(${arg_NAME}_test PROPERTIES MEGACPP_ROWS_TOGETHER ${arg_ROWS_TOGETHER})
    foreach(optional IN LISTS arg_OPTIONAL)
      target_link_libraries(${arg_NAME}_test PRIVATE megacpp_external::${optional})
    endforeach()
  endif()
endfunction()

function(megacpp_test)
  cmake_parse_arguments(arg "ROWS_TOGETHER;REPLACES_PARTS" "NAME;LABEL" "SOURCES;DEPS;LIBS;OPTIONAL" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  megacpp_check_files(${arg_NAME} ${arg_SOURCES})
  megacpp_leave_out_missing()
  if(NOT arg_SOURCES)
    return()
  endif()
  list(APPEND arg_LIBS ${arg_OPTIONAL})
  list(TRANSFORM arg_DEPS PREPEND megacpp::)
  list(TRANSFORM arg_LIBS PREPEND megacpp_external::)
  megacpp_add_gtest(${arg_NAME}_test ${arg_LABEL} ${arg_SOURCES})
  megacpp_compile_in_batches(${arg_NAME}_test 14)
  target_link_libraries(${arg_NAME}_test PRIVATE ${arg_DEPS} ${arg_LIBS})
  if(NOT arg_REPLACES_PARTS)
    megacpp_prefer_archives(${arg_NAME}_test ${arg_DEPS})
  endif()
  set_target_properties(${arg_NAME}_test PROPERTIES MEGACPP_ROWS_TOGETHER ${arg_ROWS_TOGETHER})
endfunction()

function(megacpp_bench)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  megacpp_check_files(megacpp_bench ${arg_SOURCES})
  list(TRANSFORM arg_DEPS PREPEND megacpp::)
  add_executable(megacpp_bench ${arg_SOURCES})
  megacpp_compile_in_batches(megacpp_bench 28)
  target_link_libraries(megacpp_bench PRIVATE ${arg_DEPS} megacpp_flags megacpp_external::benchmark)
endfunction()

# What ctest reads to list the tests of a program. Those of tests/ train whole models: they start before the quick ones, so
# that none of them is left to a single core at the end.
function(megacpp_list_tests target label)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(cost 0)
  if(folder MATCHES "^tests/")
    set(cost 1)
  endif()
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_list.cmake")
  file(GENERATE OUTPUT "${file}" CONTENT
"set(name \"${target}\")
set(program \"$<TARGET_FILE:${target}>\")
set(folder \"${PROJECT_SOURCE_DIR}\")
set(label \"${label}\")
set(cost ${cost})
set(rows_together $<BOOL:$<TARGET_PROPERTY:${target},MEGACPP_ROWS_TOGETHER>>)
include(\"${PROJECT_SOURCE_DIR}/cmake/ListTests.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# Tests run in the repository root, so that recipes/ and golden files have short names. Under sanitizers each program is one
# test: the leak check at the end of a process can cost seconds.
function(megacpp_add_gtest target label)
  add_executable(${target} ${ARGN})
  target_compile_definitions(${target} PRIVATE MEGACPP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE megacpp_flags megacpp_external::gtest_main megacpp_external::gtest)
  # Tests are compiled often and run once: what they test is optimized, they need not be, and they share one
  # precompiled header. Where they are, at -O1, g++ 12 sees strings written beyond their end that are not.
  target_compile_options(${target} PRIVATE
    -Wno-array-bounds $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CONFIG:Release>:-O0 -g0>)
  if(target STREQUAL base_test)
    target_precompile_headers(${target} PRIVATE
      <gtest/gtest.h> <algorithm> <chrono> <filesystem> <fmt/format.h> <functional> <map> <memory> <nlohmann/json.hpp> <optional>
      <set> <span> <sstream> <string> <string_view> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM base_test)
  endif()
  if(MEGACPP_SANITIZE)
    add_test(NAME ${target} COMMAND ${target} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${target} PROPERTIES LABELS ${label} TIMEOUT 1200)
  else()
    megacpp_list_tests(${target} ${label})
  endif()
endfunction()
