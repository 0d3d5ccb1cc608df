// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "megacpp/cli/fit_report.h"
#include "megacpp/memory/report.h"

namespace megacpp::cli {
namespace {

using fit::Found;
using memory::human_bytes;

constexpr double kWidth = 760, kHeight = 420, kMargin = 60;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string picture(const FitAnswer& answer) {
  double most = 0, slowest = 0;
  for (const Found& one : answer.search.found) {
    most = std::max(most, static_cast<double>(one.needed()));
    slowest = std::max(slowest, one.time.seconds());
  }
  const double limit = static_cast<double>(answer.search.found.front().fit.worst().limit);
  if (limit < 4 * most) most = std::max(most, limit * 1.05);
  const auto x = [&](double bytes) { return kMargin + bytes / most * (kWidth - 2 * kMargin); };
  const auto y = [&](double seconds) { return kHeight - kMargin - seconds / slowest * (kHeight - 2 * kMargin); };
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth, kHeight);
  svg += fmt::format("<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/>\n", kMargin, kMargin, kHeight - kMargin,
                     kWidth - kMargin);
  if (limit <= most)
    svg += fmt::format("<path class=\"limit\" d=\"M{0} {1}V{2}\"/><text x=\"{0}\" y=\"{3}\">limit {4}</text>\n",
                       x(limit), kMargin, kHeight - kMargin, kMargin - 8, human_bytes(static_cast<int64_t>(limit)));
  for (size_t i = 0; i < answer.search.found.size(); ++i) {
    const Found& one = answer.search.found[i];
    const char* kind = !one.fit.fits() ? "over" : answer.is_on_front(i) ? "front" : "beside";
    svg += fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}: {}, {:.4g} s</title></circle>\n", kind,
        x(static_cast<double>(one.needed())), y(one.time.seconds()), escaped(one.layout), human_bytes(one.needed()),
        one.time.seconds());
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\">bytes of the worst chip, to {}</text>\n", kMargin, kHeight - 20,
                     human_bytes(static_cast<int64_t>(most)));
  return svg +
         fmt::format("<text x=\"{}\" y=\"{}\">seconds a step, to {:.4g}</text>\n</svg>\n", 4, kMargin - 28, slowest);
}

}  // namespace

std::string fit_page(const FitAnswer& answer) {
  const std::string title = escaped(answer.recipe.name + " on " + answer.hardware);
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>\n"
      "body{{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}\n"
      "td,th{{padding:.2em .7em;text-align:left;border-bottom:1px solid "
      "#ccc}}svg{{max-width:760px}}text{{font-size:13px}}\n"
      ".axis{{fill:none;stroke:#444}}.limit{{stroke:#c33;stroke-dasharray:6 "
      "4}}.front{{fill:#06c}}.beside{{fill:#9bd}}.over{{fill:#e99}}\n"
      "</style></head><body>\n<h1>{0}</h1>\n",
      title);
  if (!answer.search.found.empty()) page += picture(answer);
  page +=
      "<table><tr><th>layout</th><th>worst chip</th><th>room</th><th>a step</th><th>tokens/s</th><th>MFU</th>"
      "<th>bound by</th><th>settings</th></tr>\n";
  for (const size_t index : answer.order()) {
    const Found& one = answer.search.found[index];
    const int64_t room = one.fit.worst().room();
    page += fmt::format(
        "<tr><td>{}{}</td><td>{}</td><td>{}{}</td><td>{:.4g} s</td><td>{:.0f}</td><td>{:.1f} %</td><td>{}</td>"
        "<td><code>{}</code></td></tr>\n",
        answer.is_on_front(index) ? "* " : "", escaped(one.layout), human_bytes(one.needed()), room < 0 ? "-" : "",
        human_bytes(std::abs(room)), one.time.seconds(), one.tokens_per_second(), 100 * one.time.mfu, one.time.regime(),
        escaped(set_words(one.changes)));
  }
  return page + "</table>\n<p>* nothing that was compiled is better in both bytes and time</p>\n</body></html>\n";
}

}  // namespace megacpp::cli
