// SPDX-License-Identifier: Apache-2.0
// What the TPU compiler says of a program that does not fit, in both of its forms, as it was recorded.
#pragma once

namespace megacpp::testing_support {

// erfanzar/EasyDeL#166
inline constexpr const char* kLongTpuMessage =
    R"(RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 63.80G of 30.75G hbm. Exceeded hbm capacity by 33.05G.

Total hbm usage >= 65.05G:
    reserved          1.25G
    program          63.80G
    arguments            0B

Output size 0B; shares 0B with arguments.

Program hbm requirement 63.80G:
    global            1.14M
    scoped            4.56M
    HLO temp         63.79G (100.0% utilization: Unpadded (63.58G) Padded (63.58G), 0.3% fragmentation (210.89M))

  Largest program allocations in hbm:

  1. Size: 2.00G
     Operator: op_name="jit(casual_language_model_train_step)/jit(main)/dot_general[precision=None]" source_file="/home/air/workspace/EasyDel/src/easydel/modules/attention_module.py" source_line=1059
     Shape: f32[32,4096,4096]{1,2,0:T(8,128)}
     Unpadded size: 2.00G
     XLA label: fusion.1265.remat3 = fusion(custom-call.224, custom-call.241, custom-call.22), kind=kOutput
     Allocation type: HLO temp
     ==========================

  2. Size: 512.00M
)";

// libtpu 0.0.48.1 compiling ahead of time for v6e, 2026-11-15
inline constexpr const char* kShortTpuMessage =
    "Ran out of memory on HBM, the total memory required for HLO temporaries (62.12G) exceeds available HBM (31.24G). "
    "HLO module: jit_step.";

}  // namespace megacpp::testing_support
