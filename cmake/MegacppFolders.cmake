# SPDX-License-Identifier: Apache-2.0
# The folders of megacpp/ in flow order, by wing. A folder may depend on folders above it only: MegacppLibrary.cmake refuses
# other DEPS at configure, tests/layering checks that includes keep to DEPS.
set(MEGACPP_FOLDERS
  # core: values and errors that everything is made of
  core/base
  core/stats
  core/schema
  core/ir
  # program: from a recipe to the program of a chip
  program/ops
  program/blocks
  program/optim
  program/recipe
  program/plan
  program/model
  program/autodiff
  program/partition
  program/schedule
  program/memory
  program/emit
  program/compile
  # hardware: chips on paper: what fits, how long a step takes, what was learnt
  hardware/hw
  hardware/catalog
  hardware/fit
  # machine: what runs programs
  machine/collectives
  machine/runtime
  machine/plugins
  machine/cpu
  machine/cuda
  machine/xla
  machine/backends
  # run: a training, from its data to its checkpoints
  run/data
  run/checkpoint
  run/train
  run/lineage
  run/launch
  # evidence: what a run leaves, and how it is shown
  evidence/http
  evidence/metrics
  evidence/receipt
  evidence/compare
  evidence/sweep
  evidence/report
  evidence/serve
  cli
)
# Their names alone, as DEPS has them.
list(TRANSFORM MEGACPP_FOLDERS REPLACE "^.*/" "" OUTPUT_VARIABLE MEGACPP_FOLDER_NAMES)
