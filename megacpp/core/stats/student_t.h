// SPDX-License-Identifier: Apache-2.0
// Student's t distribution, for intervals and tests with few degrees of freedom, which need not be whole.
#pragma once

namespace megacpp::stats {

/// The probability of a value below `t`; `degrees` is positive.
double student_t_cdf(double t, double degrees);
/// The value that the distribution stays below with `probability`, which lies in (0, 1).
double student_t_quantile(double probability, double degrees);

}  // namespace megacpp::stats
