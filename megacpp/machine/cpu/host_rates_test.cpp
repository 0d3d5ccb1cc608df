// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/host_rates.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/machine/runtime/blas_kernels.h"
#include "megacpp/machine/runtime/processor.h"
#include "tests/support/errors.h"

namespace megacpp::runtime::cpu {
namespace {

namespace fs = std::filesystem;

// Of this machine but for the rates, and no two alike: measuring takes seconds.
hw::HostRates quick_rates() {
  static double measured = 0;
  ++measured;
  return {.matrix_flops = 1e9 + measured,
          .scan_flops = 1e9,
          .bytes_per_second = 1e9 + measured,
          .cores = available_threads(),
          .memory = 1 << 30,
          .processor = this_processor().name(),
          .kernels = blas_kernels(),
          .date = "2026-11-17"};
}

/// The file with another text in place of what it has.
std::string text_with(base::Json rates, const std::string& rate, const std::string& damaged) {
  rates[rate] = "damaged";
  std::string text = base::to_text(rates);
  const std::string_view quoted = R"("damaged")";
  return text.replace(text.find(quoted), quoted.size(), damaged);
}

class HostRatesTest : public testing::Test {
 protected:
  HostRatesTest()
      : folder_(fs::temp_directory_path() / ("megacpp_rates_" + std::to_string(getpid()))),
        file_(folder_ / "cache/host-rates.json") {}
  ~HostRatesTest() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path file_;
};

TEST_F(HostRatesTest, MeasuringIsQuickAndPlausible) {
  const auto start = std::chrono::steady_clock::now();
  const hw::HostRates rates = measure_host_rates();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
#ifdef __SANITIZE_ADDRESS__  // kernels are tens of times slower
  EXPECT_LT(seconds, 120.0);
#else  // three times the promise, for machines that are busy with other tests
  EXPECT_LT(seconds, 4.0);
#endif
  EXPECT_EQ(rates.cores, available_threads());
  EXPECT_GT(rates.matrix_flops, 1e8);
  EXPECT_LT(rates.matrix_flops, 1e15);
  EXPECT_GT(rates.scan_flops, 1e7);
  EXPECT_LT(rates.scan_flops, 1e15);
  EXPECT_GT(rates.bytes_per_second, 1e8);
  EXPECT_LT(rates.bytes_per_second, 1e14);
  EXPECT_GT(rates.memory, 1 << 20);
  EXPECT_EQ(rates.date.size(), 10U);
}

TEST_F(HostRatesTest, WhatWasMeasuredIsKept) {
  const hw::HostRates first = host_rates(file_);
  const std::string text = base::read_file(file_);
  EXPECT_EQ(host_rates(file_, quick_rates).matrix_flops, first.matrix_flops);
  EXPECT_EQ(base::read_file(file_), text);
  renew_host_rates(file_, quick_rates);
  EXPECT_NE(base::read_file(file_), text);
}

TEST_F(HostRatesTest, AnotherMachinesFileAndADamagedOneAreReplaced) {
  for (const char* text :
       {"{", "[]", "", R"({"processor":"another","cores":1e300,"matrix_flops":1,"bytes_per_second":1})",
        R"({"processor":"another","cores":4096,"matrix_flops":1,"bytes_per_second":1,"date":"2020-01-01"})"}) {
    base::make_folder(file_.parent_path());
    base::write_file_atomically(file_, text);
    EXPECT_EQ(host_rates(file_, quick_rates).cores, available_threads());
    EXPECT_NE(base::read_file(file_), text);
  }
}

TEST_F(HostRatesTest, WhatAnEarlierVersionDidNotMeasureIsMeasured) {
  host_rates(file_, quick_rates);
  const base::Json sound = base::parse_json(base::read_file(file_), base::Code::E1008, "rates");
  for (const char* rate : {"matrix_flops", "scan_flops", "bytes_per_second"}) {
    base::Json older = sound;
    ASSERT_EQ(older.erase(rate), 1U);
    base::write_file_atomically(file_, base::to_text(older));
    host_rates(file_, quick_rates);
    const base::Json kept = base::parse_json(base::read_file(file_), base::Code::E1008, "rates");
    ASSERT_TRUE(kept.contains(rate)) << rate;
    EXPECT_GE(kept[rate].get<double>(), 1) << rate;
  }
}

TEST_F(HostRatesTest, RatesThatWouldDivideToInfinityAreMeasuredAgain) {
  const base::Json sound = hw::to_json(host_rates(file_, quick_rates));
  for (const char* rate : {"matrix_flops", "scan_flops", "bytes_per_second"}) {
    ASSERT_TRUE(sound.contains(rate));
    for (const char* damaged : {"1e-300", "-1", "NaN", "Infinity", "null", R"("fast")"}) {
      base::write_file_atomically(file_, text_with(sound, rate, damaged));
      const double measured = hw::to_json(host_rates(file_, quick_rates))[rate].get<double>();
      EXPECT_TRUE(std::isfinite(measured) && measured >= 1) << rate << " " << damaged;
    }
  }
}

TEST_F(HostRatesTest, AFolderThatCannotBeWrittenIsNoReasonToFail) {
  base::make_folder(folder_);
  base::write_file_atomically(folder_ / "file", "x");
  EXPECT_GT(host_rates(folder_ / "file/host-rates.json", quick_rates).matrix_flops, 0);
  testing_support::problem_of(base::Code::E3001,
                              [&] { renew_host_rates(folder_ / "file/host-rates.json", quick_rates); });
}

}  // namespace
}  // namespace megacpp::runtime::cpu
