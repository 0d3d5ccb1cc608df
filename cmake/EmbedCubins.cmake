# SPDX-License-Identifier: Apache-2.0
# megacpp_embed_cubins(target)
#   Compiles every file of device code that machine/cuda/cubin_list.inc names, kernels/<name>.cu, for Hopper (sm_90a), and
#   links the cubins into the target as data (machine/cuda/embedded_cubins.h). Nothing of CUDA is linked, and no language is
#   enabled: the target stays C++. Without nvcc it has the names alone, and megacpp_cuda_reason says why.
set(MEGACPP_CUDA_OLDEST 12.0)
find_program(MEGACPP_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin
             DOC "NVIDIA's compiler, for the kernels of backend cuda; OFF builds without them")

set(megacpp_cuda_reason "")
if(NOT MEGACPP_NVCC)
  set(megacpp_cuda_reason "no nvcc")
else()
  execute_process(COMMAND "${MEGACPP_NVCC}" --version OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" found "${said}")
  if(NOT status EQUAL 0 OR NOT found)
    set(megacpp_cuda_reason "${MEGACPP_NVCC} does not say its version")
  elseif(CMAKE_MATCH_1 VERSION_LESS MEGACPP_CUDA_OLDEST)
    set(megacpp_cuda_reason "nvcc ${CMAKE_MATCH_1} is older than ${MEGACPP_CUDA_OLDEST}")
  endif()
endif()

# The rule that makes the cubin of a file; also what it includes is followed.
function(megacpp_add_cubin name cubin)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/kernels/${name}.cu")
  get_filename_component(folder "${cubin}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT "${cubin}"
    COMMAND "${MEGACPP_NVCC}" -cubin -arch=sm_90a -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr "-I${PROJECT_SOURCE_DIR}"
            -MD -MF "${cubin}.d" -MT "${cubin}" -o "${cubin}" "${source}"
    DEPENDS "${source}"
    DEPFILE "${cubin}.d"
    COMMENT "Compiling device code ${name}.cu"
    VERBATIM)
endfunction()

function(megacpp_embed_cubins target)
  set(list "${CMAKE_CURRENT_SOURCE_DIR}/cubin_list.inc")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  file(STRINGS "${list}" lines REGEX "^MEGACPP_CUDA_CUBIN\\(")
  set(declarations "")
  set(rows "")
  set(cubins "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^MEGACPP_CUDA_CUBIN\\(([a-z0-9_]+)\\).*$" "\\1" name "${line}")
    if(megacpp_cuda_reason)
      string(APPEND rows "      {\"${name}\", {}},\n")
      continue()
    endif()
    set(cubin "${CMAKE_CURRENT_BINARY_DIR}/cubins/${name}.cubin")
    megacpp_add_cubin(${name} "${cubin}")
    list(APPEND cubins "${cubin}")
    set(symbol "megacpp_cubin_${name}")
    string(APPEND declarations "asm(\".pushsection .rodata\\n.balign 64\\n${symbol}:\\n.incbin \\\"${cubin}\\\"\\n\"\n"
                               "    \"${symbol}_end:\\n.popsection\\n\");\n"
                               "extern \"C\" __attribute__((visibility(\"hidden\"))) const std::byte ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", {${symbol}, ${symbol}_end}},\n")
  endforeach()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded_cubin_data.cpp")
  file(GENERATE OUTPUT "${output}" CONTENT
"// Written by cmake/EmbedCubins.cmake.
#include \"megacpp/machine/cuda/embedded_cubins.h\"

${declarations}
namespace megacpp::runtime::cuda {

const std::vector<EmbeddedCubin>& embedded_cubins() {
  static const std::vector<EmbeddedCubin> table = {
${rows}  };
  return table;
}

}  // namespace megacpp::runtime::cuda
")
  set_source_files_properties("${output}" PROPERTIES
    GENERATED ON OBJECT_DEPENDS "${cubins}" SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE "${output}" ${cubins})
endfunction()
