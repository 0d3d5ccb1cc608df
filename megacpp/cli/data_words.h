// SPDX-License-Identifier: Apache-2.0
// Words of `megacpp data` that have a file of their own, data_<word>.cpp.
#pragma once

#include "megacpp/cli/command.h"

namespace megacpp::cli {

Command train_tokenizer_word();

}  // namespace megacpp::cli
