// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/oom_report.h"

#include "megacpp/core/base/record_from_json.h"
#include "megacpp/core/base/record_to_json.h"
#include "megacpp/hardware/catalog/oom_report_fields.h"

namespace megacpp::catalog {

base::Json to_json(const OomReport& report) { return base::record_json(report); }

OomReport oom_report_of(const base::Json& json) {
  OomReport report;
  base::read_record(json, report, "", {});
  return report;
}

}  // namespace megacpp::catalog
