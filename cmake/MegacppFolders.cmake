# SPDX-License-Identifier: Apache-2.0
# The folders of megacpp/ in flow order. A folder may depend on folders above it only: MegacppLibrary.cmake refuses
# other DEPS at configure, tests/layering checks that includes keep to DEPS.
set(MEGACPP_FOLDERS
  base
  stats
  schema
  hw
  catalog
  ir
  ops
  blocks
  optim
  recipe
  plan
  model
  autodiff
  partition
  schedule
  memory
  emit
  compile
  fit
  collectives
  runtime
  data
  checkpoint
  train
  lineage
  launch
  metrics
  receipt
  compare
  sweep
  report
  serve
  cli
)
