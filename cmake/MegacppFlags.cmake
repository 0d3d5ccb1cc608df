# SPDX-License-Identifier: Apache-2.0
# Language level, build type, warnings and sanitizers. Warnings apply to our own targets through megacpp_flags.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(MEGACPP_CCACHE ccache)
mark_as_advanced(MEGACPP_CCACHE)
if(MEGACPP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${MEGACPP_CCACHE}")
endif()

if(MEGACPP_SANITIZE)
  add_compile_options(-fsanitize=${MEGACPP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(MEGACPP_SANITIZE MATCHES undefined)
    add_compile_options(-fno-sanitize=alignment,null,vptr)  # a quarter of the compile time; the others see bad pointers
  endif()
  add_link_options(-fsanitize=${MEGACPP_SANITIZE})
  # One instruction set is enough to look for bad accesses, and g++ 12 crashes on the sanitized SVE2 code.
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
endif()

# Designated initialisers that name only some fields are house style; g++ counts the others as missing. g++ 12 sees
# overlaps in std::string concatenation that are not there (-Wrestrict, GCC bug 105651).
add_library(megacpp_flags INTERFACE)
target_compile_options(megacpp_flags INTERFACE
  -Wall -Wextra -Wconversion -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<BOOL:${MEGACPP_WERROR}>:-Werror>)
