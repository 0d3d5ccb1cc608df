# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=megacpp -DOUTPUT=x.cpp -DDEPFILE=x.d -P HashSources.cmake
#   Writes megacpp::launch::source_hash(): a hash of the names and contents of all sources in FOLDER, tests left out. It
#   depends on nothing else, so equal sources have equal hashes on every machine. DEPFILE lists what was read.
file(GLOB_RECURSE files RELATIVE "${FOLDER}" "${FOLDER}/*.h" "${FOLDER}/*.cpp" "${FOLDER}/*.cu" "${FOLDER}/*.cuh" "${FOLDER}/*.inc" "${FOLDER}/*.yaml"
     "${FOLDER}/CMakeLists.txt")
list(FILTER files EXCLUDE REGEX "_test\\.cpp$")
list(SORT files)
set(text "")
set(read "")
foreach(file IN LISTS files)
  file(SHA256 "${FOLDER}/${file}" hash)
  string(APPEND text "${file} ${hash}\n")
  string(REPLACE " " "\\ " escaped "${FOLDER}/${file}")
  string(APPEND read " \\\n  ${escaped}")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING "${hash}" 0 16 hash)
file(WRITE "${OUTPUT}" "// Written by HashSources.cmake.
#include \"megacpp/run/launch/source_hash.h\"

namespace megacpp::launch {

std::string source_hash() { return \"${hash}\"; }

}  // namespace megacpp::launch
")
string(REPLACE " " "\\ " escaped "${OUTPUT}")
file(WRITE "${DEPFILE}" "${escaped}:${read}\n")
