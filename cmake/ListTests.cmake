# SPDX-License-Identifier: Apache-2.0
# Read by ctest before it runs anything, once for each test program: its cases, as the program itself lists them.
#   name, program: the program and its file; folder: where it runs; label: of all its tests
#   cost: tests of a higher one start earlier, tables before all of them
#   rows_together: whether the rows of a table (INSTANTIATE_TEST_SUITE_P) share a process; otherwise each case has its own
cmake_minimum_required(VERSION 3.22)
set(most_rows 256)  # in one process: ctest shows no more than so much of what a test printed

if(NOT EXISTS "${program}")
  add_test("${name}_NOT_BUILT" "${name}_NOT_BUILT")
  return()
endif()

# Shown as skipped where all cases are: a pattern that any skipped case matches would hide one that fails beside it.
function(megacpp_add_listed test filter cases timeout)
  add_test("${test}" "${program}" "--gtest_filter=${filter}")
  set_tests_properties("${test}" PROPERTIES
    LABELS "${label}"
    TIMEOUT ${timeout}
    COST ${cost}
    WORKING_DIRECTORY "${folder}"
    SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] ${cases} tests?, listed")
endfunction()

# GoogleTest deals rows as cards are dealt: where they are not even the first processes get one more.
function(megacpp_add_table suite rows)
  math(EXPR parts "(${rows} + ${most_rows} - 1) / ${most_rows}")
  foreach(part RANGE 1 ${parts})
    set(test "${suite}")
    if(parts GREATER 1)
      set(test "${suite}/${part}of${parts}")
    endif()
    math(EXPR index "${part} - 1")
    math(EXPR dealt "(${rows} + ${parts} - ${part}) / ${parts}")
    megacpp_add_listed("${test}" "${suite}.*" ${dealt} 1200)
    set_tests_properties("${test}" PROPERTIES
      COST 2
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

execute_process(
  COMMAND "${program}" --gtest_list_tests
  WORKING_DIRECTORY "${folder}"
  OUTPUT_VARIABLE listed
  ERROR_VARIABLE said
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${program} --gtest_list_tests: ${status}\n${listed}${said}")
endif()

# "Suite." and below it "  Case", either with a comment behind it, which may hold anything.
string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")
string(REGEX MATCHALL "[^\n]+" lines "${listed}")
set(suite "")
set(rows 0)
foreach(line IN LISTS lines ITEMS "end.")
  if(line MATCHES "^  ([A-Za-z0-9_/]+)$")
    set(case "${CMAKE_MATCH_1}")
    if(rows_together AND suite MATCHES "/")
      math(EXPR rows "${rows} + 1")
    else()
      megacpp_add_listed("${suite}.${case}" "${suite}.${case}" 1 600)
    endif()
  elseif(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(next "${CMAKE_MATCH_1}")
    if(rows GREATER 0)
      megacpp_add_table("${suite}" ${rows})
    endif()
    set(suite "${next}")
    set(rows 0)
  elseif(line MATCHES "^  ")
    message(FATAL_ERROR "${program} --gtest_list_tests: no name of a case: ${line}")
  endif()
endforeach()
