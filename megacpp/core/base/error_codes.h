// SPDX-License-Identifier: Apache-2.0
// Every error a user can meet, in one sorted list: code, class, and what it means in five words.
// docs/errors.md has one section per code; a test fails when a section is missing.
// Classes decide the exit status: user 2, does_not_fit 3, environment 1, not_comparable 4, internal 70.
#pragma once

// clang-format off
#define MEGACPP_ERROR_CODES(X)                                                      \
  X(E1001, user,        "unknown recipe key")                                       \
  X(E1002, user,        "recipe value has wrong type")                              \
  X(E1003, user,        "recipe value out of range")                                \
  X(E1004, user,        "recipe is not readable YAML")                              \
  X(E1005, user,        "model sizes do not fit together")                          \
  X(E1006, user,        "pattern string is not valid")                              \
  X(E1007, user,        "command line is not valid")                                \
  X(E1008, user,        "input file cannot be read")                                \
  X(E1101, user,        "training data is missing or empty")                        \
  X(E1102, user,        "token outside the vocabulary")                             \
  X(E1111, user,        "tokenizer file is not valid")                              \
  X(E1112, user,        "tokenizer part is not supported")                          \
  X(E1113, user,        "pre-tokenizer expression fails")                           \
  X(E1201, user,        "file is not valid safetensors")                            \
  X(E1202, user,        "model class or config not supported")                      \
  X(E1203, user,        "tensor is missing or misshapen")                           \
  X(E1204, user,        "checkpoint is damaged or incomplete")                      \
  X(E1205, user,        "checkpoint is of another model")                           \
  X(E1206, user,        "no run or checkpoint is here")                             \
  X(E1301, user,        "program text or node is not valid")                        \
  X(E1302, user,        "loss is not finite")                                       \
  X(E1303, user,        "results differ from golden file")                          \
  X(E1401, user,        "degrees do not multiply to chips")                         \
  X(E1402, user,        "heads or groups cannot be split")                          \
  X(E1403, user,        "experts cannot be split")                                  \
  X(E1404, user,        "sequence cannot be split")                                 \
  X(E1405, user,        "batch is too small to split")                              \
  X(E1406, user,        "blocks do not fill the stages")                            \
  X(E1407, user,        "layout keys contradict each other")                        \
  X(E1408, user,        "tensor would be replicated implicitly")                    \
  X(E1409, user,        "parameter cannot be spread so")                            \
  X(E1501, user,        "plugin cannot be found")                                   \
  X(E1502, user,        "file is not a plugin")                                     \
  X(E1503, user,        "plugin version does not fit")                              \
  X(E1504, user,        "too few devices for mesh")                                 \
  X(E1505, user,        "backend cannot run this")                                  \
  X(E1506, user,        "topology is not known")                                    \
  X(E1507, user,        "XLA flag is not valid")                                    \
  X(E1508, user,        "no GPU can be used")                                       \
  X(E1509, user,        "CUDA library cannot be used")                              \
  X(E1601, user,        "hardware is not known")                                    \
  X(E1602, user,        "slice is not possible")                                    \
  X(E1603, user,        "hardware file is not valid")                               \
  X(E1604, user,        "shape or layout is not valid")                             \
  X(E1605, user,        "limit is below what a chip always holds")                  \
  X(E1701, user,        "file is not a sound catalog")                              \
  X(E1702, user,        "catalog is of another version")                            \
  X(E1801, user,        "receipt is damaged or edited")                             \
  X(E1802, user,        "receipt is of a newer schema")                             \
  X(E1803, user,        "there is no receipt")                                      \
  X(E1901, user,        "lock file is damaged or edited")                           \
  X(E1902, user,        "lock file is of a newer version")                          \
  X(E1903, user,        "lock file is of another architecture")                     \
  X(E2001, does_not_fit,"plan exceeds the memory limit")                            \
  X(E2002, does_not_fit,"program exceeds a chip's memory")                          \
  X(E2003, does_not_fit,"program cannot be loaded")                                 \
  X(E2004, does_not_fit,"device memory ran out")                                    \
  X(E2005, does_not_fit,"host memory ran out")                                      \
  X(E3001, environment, "file cannot be written")                                   \
  X(E3002, environment, "memory cannot be obtained")                                \
  X(E3003, environment, "run directory is in use")                                  \
  X(E3004, environment, "port cannot be listened on")                               \
  X(E3101, environment, "another chip failed")                                      \
  X(E3102, environment, "a chip waited too long")                                   \
  X(E3103, environment, "processes do not agree")                                   \
  X(E3104, environment, "processes cannot be joined")                               \
  X(E3201, environment, "plugin call failed")                                       \
  X(E3202, environment, "plugin process died or hung")                              \
  X(E3203, environment, "plugin cannot be fetched")                                 \
  X(E3204, environment, "GPU call failed")                                          \
  X(E3301, environment, "catalog stays locked by others")                           \
  X(E3401, environment, "machine is not as it should be")                           \
  X(E4001, not_comparable, "comparison is confounded")                              \
  X(E4002, not_comparable, "runs are not comparable")                               \
  X(E9001, internal,    "invariant violated")                                       \
  X(E9002, internal,    "state would move between steps")
// clang-format on
