// SPDX-License-Identifier: Apache-2.0
// What is done with a chip file that was read: its slices, and the bytes of tensors in its memory.
#pragma once

#include <string>

namespace megacpp::fuzz {

/// Reads the text as the file fuzz.yaml; other chips it may extend are those built in.
void read_chip_text(const std::string& text);

}  // namespace megacpp::fuzz
