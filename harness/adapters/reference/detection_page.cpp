#include "harness/adapters/reference/detection_page.h"

#include <fmt/format.h>

#include <map>

#include "harness/adapters/reference/defect.h"

namespace resumecheck {
namespace {

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>resumecheck: detection matrix</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
 body { font: 14px/1.45 system-ui, sans-serif; margin: 2em; color: #1a1d21; background: #fff; }
 h1 { font-size: 1.4em; } p { max-width: 60em; }
 .wide { overflow-x: auto; }
 table { border-collapse: collapse; }
 th, td { border: 1px solid #e3e6ea; padding: 0 .3em; }
 thead th { height: 19em; vertical-align: bottom; padding: .4em 0; background: #fff; border-top: 0; }
 thead th span { writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 400;
  font-size: 12px; white-space: nowrap; }
 tbody th { text-align: left; font-weight: 400; white-space: nowrap; position: sticky; left: 0;
  background: #fff; }
 tbody th code { font-size: 13px; } tbody tr:hover > * { background: #f3f6fa; }
 td { text-align: center; min-width: 1.2em; cursor: default; }
 .named { color: #137333; } .other { color: #b06000; } .missed { color: #c5221f; font-weight: 700; }
 .total { color: #5f6368; font-size: 12px; } .problem { color: #c5221f; }
</style></head><body>
)";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

// "a/b[x,y]" -> "a/b"
std::string scenario_of(const std::string& row) { return row.substr(0, row.find('[')); }

int worth(const DetectionCell& cell) {
  switch (cell.outcome) {
    case DetectionCell::Outcome::caught:
      return cell.named ? 4 : 3;
    case DetectionCell::Outcome::missed:
      return 2;
    case DetectionCell::Outcome::no_effect:
      return 1;
    case DetectionCell::Outcome::not_run:
      return 0;
  }
  return 0;
}

using Columns = std::map<std::string, std::vector<DetectionCell>>;  // by scenario

Columns columns_of(const DetectionMatrix& matrix) {
  Columns columns;
  for (const DetectionRow& row : matrix.rows) {
    std::vector<DetectionCell>& best = columns[scenario_of(row.scenario)];
    best.resize(row.cells.size());
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      if (worth(row.cells[i]) > worth(best[i])) best[i] = row.cells[i];
    }
  }
  return columns;
}

std::string html_of(const DetectionCell& cell) {
  const auto marked = [&](const char* kind, const char* sign) {
    return fmt::format("<td class=\"{}\" title=\"{}\">{}</td>", kind,
                       escaped(fmt::format("{}\n{}: {}\nfits: {}", cell.case_name, cell.failed_at,
                                           cell.symptom, cell.fit.empty() ? "nothing" : cell.fit)),
                       sign);
  };
  switch (worth(cell)) {
    case 4:
      return marked("named", "&#9679;");
    case 3:
      return marked("other", "&#9675;");
    case 2:
      return marked("missed", "&#10007;");
    default:
      return "<td></td>";
  }
}

std::string rows_of(const DetectionMatrix& matrix, const Columns& columns) {
  std::string text;
  for (std::size_t i = 0; i < matrix.defects.size(); ++i) {
    const DefectDescription* defect = find_defect(matrix.defects[i]);
    int named = 0;
    std::string cells;
    for (const auto& column : columns) {
      named += worth(column.second[i]) == 4 ? 1 : 0;
      cells += html_of(column.second[i]);
    }
    text +=
        fmt::format("<tr><th title=\"{}\"><code>{}</code></th><td class=\"total\">{}</td>{}</tr>\n",
                    escaped(defect == nullptr ? "" : defect->summary), escaped(matrix.defects[i]),
                    named, cells);
  }
  return text;
}

}  // namespace

std::string to_page(const DetectionMatrix& matrix) {
  const Columns columns = columns_of(matrix);
  const std::vector<std::string> problems = matrix.problems();
  std::string text = kHead;
  text += fmt::format(
      "<h1>Detection matrix</h1>\n<p>{} deliberate mistakes in the reference's save and load, {} "
      "scenarios. A scenario that no mistake turns red could not fail; a mistake that none catches "
      "is a hole.</p>\n",
      matrix.defects.size(), columns.size());
  text +=
      "<p><span class=\"named\">&#9679;</span> caught, and the diagnosis calls it by its name "
      "&nbsp; <span class=\"other\">&#9675;</span> caught, under another name &nbsp; <span "
      "class=\"missed\">&#10007;</span> it changed the run and was not seen &nbsp; (empty) it "
      "changes nothing there. The number counts the scenarios that name it; point at a cell for "
      "what was seen.</p>\n";
  for (const std::string& problem : problems) {
    text += fmt::format("<p class=\"problem\">{}</p>\n", escaped(problem));
  }
  text += "<div class=\"wide\"><table><thead><tr><th></th><th></th>";
  for (const auto& column : columns) {
    text += fmt::format("<th><span>{}</span></th>", escaped(column.first));
  }
  return text + "</tr></thead>\n<tbody>\n" + rows_of(matrix, columns) +
         "</tbody></table></div>\n</body></html>\n";
}

}  // namespace resumecheck
