// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/safetensors_check.h"

#include "megacpp/run/checkpoint/safetensors.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/scratch_file.h"

namespace megacpp::fuzz {
void read_safetensors(std::string_view content) {
  static const ScratchFile scratch("input.safetensors");
  scratch.write(content);
  const checkpoint::SafetensorsFile file(scratch.path());
  for (const checkpoint::StoredTensor& tensor : file.tensors()) {
    size_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<size_t>(size);
    require(tensor.bytes.size() == elements * static_cast<size_t>(tensor.type->bytes()),
            "a tensor's bytes are those of its shape");
    require(&file.at(tensor.name) == &tensor, "a tensor is found by its name");
    if (tensor.type->kind == ir::ElementKind::integer)
      require(checkpoint::to_ints(tensor).size() == elements, "every integer is read");
    else
      require(checkpoint::to_floats(tensor).size() == elements, "every number is read");
  }
}

std::string safetensors_file(const std::string& header, std::string_view data) {
  std::string content;
  for (size_t i = 0; i < 8; ++i) content.push_back(static_cast<char>(header.size() >> (8 * i)));
  return (content += header).append(data);
}

}  // namespace megacpp::fuzz
