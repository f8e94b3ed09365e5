// One case as one line of results.jsonl, and back. A field that is not written here is lost to
// every report, so reading is as strict as writing is complete.
#include <nlohmann/json.hpp>

#include "harness/report/report.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

using Json = nlohmann::ordered_json;

Json environment_json(const std::optional<EnvironmentRecord>& environment) {
  if (!environment) return nullptr;
  Json packages = Json::object();
  for (const auto& [name, version] : environment->packages) packages[name] = version;
  return {{"name", environment->name}, {"packages", packages}};
}

std::optional<EnvironmentRecord> environment_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return EnvironmentRecord{json.at("name").get<std::string>(),
                           json.at("packages").get<std::map<std::string, std::string>>()};
}

constexpr std::pair<Difference::Kind, const char*> difference_kinds[] = {
    {Difference::Kind::missing, "missing"},
    {Difference::Kind::extra, "extra"},
    {Difference::Kind::dtype, "dtype"},
    {Difference::Kind::shape, "shape"},
    {Difference::Kind::block, "block"},
    {Difference::Kind::bytes, "bytes"},
    {Difference::Kind::storage_width, "storage_width"},
    {Difference::Kind::value, "value"}};

std::string kind_name(Difference::Kind kind) {
  for (const auto& [each, name] : difference_kinds) {
    if (each == kind) return name;
  }
  return "bytes";
}

Difference::Kind kind_from(const std::string& text) {
  for (const auto& [kind, name] : difference_kinds) {
    if (text == name) return kind;
  }
  throw std::invalid_argument("'" + text + "' is no kind of difference");
}

Json difference_json(const std::optional<Difference>& difference) {
  if (!difference) return nullptr;
  const Difference& d = *difference;
  return {{"kind", kind_name(d.kind)},
          {"name", d.key.name},
          {"part", d.key.part},
          {"elements", d.elements},
          {"differing", d.differing},
          {"first_index", d.first_index},
          {"block", d.block},
          {"blocks", d.blocks},
          {"differing_blocks", d.differing_blocks},
          {"first_block", d.first_block},
          {"largest_ulp", d.largest_ulp},
          {"want", d.want},
          {"got", d.got}};
}

std::optional<Difference> difference_from(const Json& json) {
  if (json.is_null()) return std::nullopt;
  Difference d;
  d.kind = kind_from(json.at("kind").get<std::string>());
  d.key = {json.at("name").get<std::string>(), json.at("part").get<std::string>()};
  json.at("elements").get_to(d.elements);
  json.at("differing").get_to(d.differing);
  json.at("first_index").get_to(d.first_index);
  json.at("block").get_to(d.block);
  json.at("blocks").get_to(d.blocks);
  json.at("differing_blocks").get_to(d.differing_blocks);
  json.at("first_block").get_to(d.first_block);
  json.at("largest_ulp").get_to(d.largest_ulp);
  json.at("want").get_to(d.want);
  json.at("got").get_to(d.got);
  return d;
}

Json fits_json(const std::vector<Fit>& fits) {
  Json list = Json::array();
  for (const Fit& fit : fits) {
    list.push_back(
        {{"name", fit.name}, {"fits", fit.fits}, {"of", fit.of}, {"detail", fit.detail}});
  }
  return list;
}

std::vector<Fit> fits_from(const Json& json) {
  std::vector<Fit> fits;
  for (const Json& each : json) {
    fits.push_back({each.at("name").get<std::string>(), each.at("fits").get<std::int64_t>(),
                    each.at("of").get<std::int64_t>(), each.at("detail").get<std::string>()});
  }
  return fits;
}

Json parts_json(const std::map<std::string, PartTally>& parts) {
  Json json = Json::object();
  for (const auto& [part, tally] : parts) {
    json[part] = {{"same", tally.same}, {"total", tally.total}};
  }
  return json;
}

std::map<std::string, PartTally> parts_from(const Json& json) {
  std::map<std::string, PartTally> parts;
  for (const auto& [part, tally] : json.items()) {
    parts[part] = {tally.at("same").get<std::int64_t>(), tally.at("total").get<std::int64_t>()};
  }
  return parts;
}

Verdict verdict_from(const std::string& text) {
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::vacuous, Verdict::xfail,
                                Verdict::xpass, Verdict::skip, Verdict::error, Verdict::timeout}) {
    if (name_of(verdict) == text) return verdict;
  }
  throw std::invalid_argument("'" + text + "' is no verdict");
}

CaseResult result_from(const Json& json) {
  if (json.at("schema").get<int>() != results_schema)
    throw std::invalid_argument("schema is not 1");
  CaseResult r;
  json.at("case").get_to(r.name);
  json.at("scenario").get_to(r.scenario);
  json.at("variant").get_to(r.variant);
  json.at("adapter").get_to(r.adapter);
  r.save_environment = environment_from(json.at("save_environment"));
  r.load_environment = environment_from(json.at("load_environment"));
  json.at("from").get_to(r.from);
  json.at("onto").get_to(r.onto);
  json.at("device").get_to(r.device);
  json.at("stand_ins").get_to(r.stand_ins);
  r.verdict = verdict_from(json.at("verdict").get<std::string>());
  json.at("failed_at").get_to(r.failed_at);
  json.at("symptom").get_to(r.symptom);
  json.at("reason").get_to(r.reason);
  json.at("known_broken").get_to(r.known_broken);
  json.at("oracles").get_to(r.oracles);
  json.at("compared").at("tensors").get_to(r.compared_tensors);
  json.at("compared").at("bytes").get_to(r.compared_bytes);
  r.parts = parts_from(json.at("parts"));
  r.first_difference = difference_from(json.at("first_difference"));
  json.at("holders").get_to(r.holders);
  r.diagnosis.fits = fits_from(json.at("fits"));
  json.at("does_not_fit").get_to(r.diagnosis.does_not_fit);
  json.at("notes").get_to(r.notes);
  json.at("process").get_to(r.process);
  json.at("transport").get_to(r.transport);
  json.at("golden").get_to(r.golden);
  json.at("save_after").get_to(r.save_after);
  json.at("seconds").get_to(r.seconds);
  json.at("attempt").get_to(r.attempt);
  json.at("again").get_to(r.again);
  json.at("artifacts").get_to(r.artifacts);
  json.at("want_file").get_to(r.want_file);
  json.at("got_file").get_to(r.got_file);
  return r;
}

// "[json.exception.out_of_range.403] key 'x' not found" is for whoever wrote the parser.
std::string without_class(const std::string& text) {
  const std::size_t end = text.find("] ");
  return text.rfind("[json.", 0) == 0 && end != text.npos ? text.substr(end + 2) : text;
}

}  // namespace

std::string to_json_line(const CaseResult& r, const std::string& run_id) {
  const Json json = {{"schema", results_schema},
                     {"run_id", run_id},
                     {"case", r.name},
                     {"scenario", r.scenario},
                     {"variant", r.variant},
                     {"adapter", r.adapter},
                     {"save_environment", environment_json(r.save_environment)},
                     {"load_environment", environment_json(r.load_environment)},
                     {"from", r.from},
                     {"onto", r.onto},
                     {"device", r.device},
                     {"stand_ins", r.stand_ins},
                     {"verdict", name_of(r.verdict)},
                     {"failed_at", r.failed_at},
                     {"symptom", r.symptom},
                     {"reason", r.reason},
                     {"known_broken", r.known_broken},
                     {"oracles", Json(r.oracles)},
                     {"compared", {{"tensors", r.compared_tensors}, {"bytes", r.compared_bytes}}},
                     {"parts", parts_json(r.parts)},
                     {"first_difference", difference_json(r.first_difference)},
                     {"holders", r.holders},
                     {"fits", fits_json(r.diagnosis.fits)},
                     {"does_not_fit", r.diagnosis.does_not_fit},
                     {"notes", r.notes},
                     {"process", r.process},
                     {"transport", r.transport},
                     {"golden", r.golden},
                     {"save_after", r.save_after},
                     {"seconds", r.seconds},
                     {"attempt", r.attempt},
                     {"again", r.again},
                     {"artifacts", r.artifacts},
                     {"want_file", r.want_file},
                     {"got_file", r.got_file}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

CaseResult from_json_line(const std::string& line) {
  try {
    return result_from(Json::parse(line));
  } catch (const std::exception& error) {
    throw Error(Error::Kind::harness, "results.jsonl",
                "a line is no result of this version: " + without_class(error.what()),
                "run again with an empty --out folder");
  }
}

}  // namespace resumecheck
