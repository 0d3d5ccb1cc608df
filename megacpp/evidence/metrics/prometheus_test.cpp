// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/prometheus.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/errors.h"

namespace megacpp::metrics {
namespace {

TEST(PrometheusTest, AFamilyHasItsHelpItsTypeAndItsSamples) {
  const std::vector<MetricFamily> families = {
      {.name = "megacpp_loss", .help = "Loss.", .samples = {{.value = 2.5}}},
      {.name = "megacpp_steps_total",
       .help = "Steps.",
       .kind = MetricKind::counter,
       .samples = {{.labels = {{"run", "a"}}, .value = 20}, {.labels = {{"run", "b"}, {"block", "x"}}, .value = 1e-9}}},
      {.name = "megacpp_none", .help = "Not measured."}};
  EXPECT_EQ(metrics_text(families),
            "# HELP megacpp_loss Loss.\n"
            "# TYPE megacpp_loss gauge\n"
            "megacpp_loss 2.5\n"
            "# HELP megacpp_steps_total Steps.\n"
            "# TYPE megacpp_steps_total counter\n"
            "megacpp_steps_total{run=\"a\"} 20\n"
            "megacpp_steps_total{run=\"b\",block=\"x\"} 1e-09\n");
  EXPECT_EQ(metrics_text({}), "");
}

TEST(PrometheusTest, TextsAreEscaped) {
  const std::vector<MetricFamily> families = {{.name = "a",
                                               .help = "one \"quote\",\none \\",
                                               .samples = {{.labels = {{"run", "a \"b\"\n\\ \xff"}}, .value = 1}}}};
  EXPECT_EQ(metrics_text(families),
            "# HELP a one \"quote\",\\none \\\\\n"
            "# TYPE a gauge\n"
            "a{run=\"a \\\"b\\\"\\n\\\\ \\\\xff\"} 1\n");
}

TEST(PrometheusTest, NumbersThatAreNoneHaveWords) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<MetricFamily> families = {
      {.name = "a",
       .help = "A.",
       .samples = {{.value = std::numeric_limits<double>::quiet_NaN()}, {.value = kInfinity}, {.value = -kInfinity}}}};
  EXPECT_TRUE(metrics_text(families).ends_with("a NaN\na +Inf\na -Inf\n"));
}

TEST(PrometheusTest, NamesThatNoServerTakesAreOurMistake) {
  const auto refused = [](const MetricFamily& family) {
    testing_support::problem_of(base::Code::E9001, [&] { metrics_text({family}); });
  };
  refused({.name = "9a", .help = "A."});
  refused({.name = "a-b", .help = "A."});
  refused({.name = "a", .help = ""});
  refused({.name = "a_total", .help = "A gauge."});
  refused({.name = "a", .help = "A counter.", .kind = MetricKind::counter});
  refused({.name = "a", .help = "A.", .samples = {{.labels = {{"a b", ""}}}}});
}

}  // namespace
}  // namespace megacpp::metrics
