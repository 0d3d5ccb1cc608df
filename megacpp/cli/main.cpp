// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/command.h"

int main(int argc, char** argv) { return megacpp::cli::run(argc, argv); }
