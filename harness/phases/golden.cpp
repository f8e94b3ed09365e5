#include "harness/phases/golden.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/scenario/variants.h"
#include "harness/state/digest.h"
#include "harness/state/error.h"
#include "harness/state/file.h"
#include "harness/state/json_text.h"

namespace resumecheck {
namespace {

using nlohmann::json;

Error unreadable(const std::string& where, const std::string& what) {
  return Error(Error::Kind::harness, where, what,
               "restore the file, or make it anew with `resumecheck golden update`");
}

// "ffn.up/moment1.codes": a part never holds a slash, a parameter's name may.
TensorKey parse_key(const std::string& text, const std::string& where) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) {
    throw unreadable(where, "'" + text + "' is no name/part");
  }
  return {text.substr(0, slash), text.substr(slash + 1)};
}

std::int64_t parse_step(const std::string& text, const std::string& where) {
  std::int64_t step = -1;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (problem != std::errc() || end != text.data() + text.size() || step < 0) {
    throw unreadable(where, "'" + text + "' is no step");
  }
  return step;
}

Shape shape_field(const json& object, const std::string& where) {
  Shape shape;
  const json& given = field(object, "shape", where);
  if (!given.is_array()) throw unreadable(where, "shape is not an array");
  for (const json& size : given) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < 0) {
      throw unreadable(where, "shape holds what is no size");
    }
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

std::string digest_of_steps(const Golden& golden) {
  std::string text;
  for (const auto& [step, tensors] : golden.steps) {
    for (const auto& [key, tensor] : tensors) {
      text += fmt::format("{} {}/{} {} {} {}\n", step, key.name, key.part, tensor.dtype,
                          to_text(tensor.shape), tensor.digest);
    }
  }
  return digest(text);
}

std::string optional_text(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

std::map<TensorKey, GoldenTensor> read_step(const json& tensors, const std::string& where) {
  if (!tensors.is_object()) throw unreadable(where, "is not an object");
  std::map<TensorKey, GoldenTensor> step;
  for (const auto& [name, tensor] : tensors.items()) {
    const std::string place = where + ", " + name;
    step[parse_key(name, place)] = {text_field(tensor, "dtype", place), shape_field(tensor, place),
                                    text_field(tensor, "digest", place)};
  }
  return step;
}

Golden parse_golden(const std::filesystem::path& file, const std::string& text) {
  const std::string where = file.string();
  const json object = parse_json(text, where);
  if (!object.is_object()) throw unreadable(where, "is not a JSON object");
  if (integer_field(object, "schema", where) != 1) throw unreadable(where, "schema is not 1");
  Golden golden;
  golden.file = file;
  golden.scenario = text_field(object, "scenario", where);
  golden.profile = text_field(object, "profile", where);
  golden.settings_digest = text_field(object, "settings_digest", where);
  golden.digest = text_field(object, "digest", where);
  json made_by = field(object, "made_by", where);
  if (!made_by.is_object()) throw unreadable(where, "made_by is not an object");
  golden.date = text_field(made_by, "date", where + ", made_by");
  golden.reason = text_field(made_by, "reason", where + ", made_by");
  made_by.erase("date");
  made_by.erase("reason");
  golden.machine = dump(made_by);
  for (const json& entry : field(object, "confirmed_on", where)) {
    golden.confirmed_on.push_back({text_field(entry, "device", where + ", confirmed_on"),
                                   optional_text(entry, "isa"), optional_text(entry, "date"),
                                   optional_text(entry, "driver")});
  }
  const json& steps = field(object, "steps", where);
  if (!steps.is_object() || steps.empty()) throw unreadable(where, "steps holds no step");
  for (const auto& [step, tensors] : steps.items()) {
    golden.steps[parse_step(step, where + ", steps")] =
        read_step(tensors, where + ", step " + step);
  }
  if (digest_of_steps(golden) != golden.digest) {
    throw unreadable(where, "its digest is not that of its own steps: it was edited by hand");
  }
  return golden;
}

json json_of(const Golden& golden) {
  json made_by = parse_json(golden.machine, "machine");
  made_by["date"] = golden.date;
  made_by["reason"] = golden.reason;
  json confirmed = json::array();
  for (const GoldenConfirmation& one : golden.confirmed_on) {
    json entry = {{"device", one.device}, {"isa", one.isa}, {"date", one.date}};
    if (!one.driver.empty()) entry["driver"] = one.driver;
    confirmed.push_back(entry);
  }
  json steps = json::object();
  for (const auto& [step, tensors] : golden.steps) {
    json& of_step = steps[std::to_string(step)];
    for (const auto& [key, tensor] : tensors) {
      of_step[key.name + "/" + key.part] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"digest", tensor.digest}};
    }
  }
  return {{"schema", 1},
          {"scenario", golden.scenario},
          {"profile", golden.profile},
          {"made_by", made_by},
          {"confirmed_on", confirmed},
          {"settings_digest", golden.settings_digest},
          {"digest", golden.digest},
          {"steps", steps}};
}

void add_features(const Settings& settings, json& decides) {
  const Settings::Model& model = settings.model;
  const Settings::Optimizer& optimizer = settings.optimizer;
  if (model.tied) decides["tied"] = true;
  if (model.experts > 0) decides["experts"] = model.experts;
  if (model.dropout > 0) decides["dropout"] = model.dropout;
  if (!model.frozen.empty()) {
    decides["frozen"] = {
        {"parameters", model.frozen}, {"from", model.frozen_from}, {"until", model.frozen_until}};
  }
  for (const Settings::Optimizer::Group& group : optimizer.groups) {
    decides["groups"].push_back(
        {{"parameters", group.parameters}, {"lr", group.lr}, {"weight_decay", group.weight_decay}});
  }
  if (!optimizer.schedule.empty()) {
    decides["schedule"] = {{"name", optimizer.schedule}, {"steps", optimizer.schedule_steps}};
  }
  if (optimizer.clip_norm > 0) decides["clip_norm"] = optimizer.clip_norm;
  if (settings.loss_scale.initial > 0) {
    decides["loss_scale"] = {{"initial", settings.loss_scale.initial},
                             {"growth_interval", settings.loss_scale.growth_interval},
                             {"largest", settings.loss_scale.largest}};
  }
  if (settings.data != "by_step") decides["data"] = settings.data;
}

// Left out where it is as in every run, so that no digest changes because there is one more choice.
void add_what_is_not_usual(const Settings& settings, json& decides) {
  const Settings::Optimizer& optimizer = settings.optimizer;
  if (!settings.master_dtype.empty()) decides["master_dtype"] = settings.master_dtype;
  if (!optimizer.profile_after_save.empty() && optimizer.profile_after_save != optimizer.profile) {
    decides["profile_after_save"] = optimizer.profile_after_save;
  }
  if (!settings.model.kind.empty()) decides["model"] = settings.model.kind;
  if (const Settings::Fp8& fp8 = settings.fp8; !fp8.recipe.empty()) {
    decides["fp8"] = {{"recipe", fp8.recipe},
                      {"amax_history_len", fp8.amax_history_len},
                      {"amax_compute_algo", fp8.amax_compute_algo},
                      {"margin", fp8.margin},
                      {"format", fp8.format},
                      {"update", fp8.update},
                      {"reduce_amax", fp8.reduce_amax}};
  }
  add_features(settings, decides);
  if (!optimizer.stochastic_rounding) return;
  decides["stochastic_rounding"] = true;
  if (optimizer.profile == "canonical") return;
  json& order = decides["order"] = json::array();  // in which a generator is drawn from
  for (const auto& parameter : settings.parameters) order.push_back(parameter.first);
}

std::string text_of(const GoldenTensor& tensor) {
  return fmt::format("{} {} {}", tensor.dtype, to_text(tensor.shape), tensor.digest);
}

}  // namespace

std::string settings_digest(const Settings& settings) {
  const Settings::Optimizer& optimizer = settings.optimizer;
  json parameters = json::object();  // sorted by name, as ordinals are
  for (const auto& [name, shape] : settings.parameters) parameters[name] = shape;
  json decides = {{"seed", settings.seed},
                  {"parameters", parameters},
                  {"param_dtype", settings.param_dtype},
                  {"optimizer", optimizer.name},
                  {"profile", optimizer.profile},
                  {"lr", optimizer.lr},
                  {"beta1", optimizer.beta1},
                  {"beta2", optimizer.beta2},
                  {"eps", optimizer.eps},
                  {"weight_decay", optimizer.weight_decay},
                  {"block", optimizer.block},
                  {"min_quantised_elements", optimizer.min_quantised_elements},
                  {"gradients", settings.gradients},
                  {"save_after", settings.save_after},
                  {"train_until", settings.train_until}};
  add_what_is_not_usual(settings, decides);
  return digest(dump(decides));
}

std::filesystem::path golden_file(const std::filesystem::path& root, const std::string& scenario) {
  return root / "golden" / (scenario + ".json");
}

std::optional<Golden> read_golden_of_any_settings(const std::filesystem::path& root,
                                                  const Scenario& scenario) {
  const std::string name = golden_name(scenario);
  const std::filesystem::path file = golden_file(root, name);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  Golden golden = parse_golden(file, read_file(file));
  if (golden.scenario != name) {
    throw unreadable(file.string(), "is the golden of " + golden.scenario);
  }
  return golden;
}

std::optional<Golden> read_golden(const std::filesystem::path& root, const Scenario& scenario) {
  auto golden = read_golden_of_any_settings(root, scenario);
  if (golden && golden->settings_digest != settings_digest(scenario.settings)) {
    throw Error(Error::Kind::harness, golden->file.string(),
                "was made for other settings than those in " + scenario.file.string(),
                "`resumecheck golden update " + scenario.name + " --reason WHY`");
  }
  return golden;
}

Golden make_golden(const std::filesystem::path& root, const Scenario& scenario,
                   const std::map<std::int64_t, LogicalState>& states) {
  Golden golden;
  golden.scenario = golden_name(scenario);
  golden.file = golden_file(root, golden.scenario);
  golden.profile = scenario.settings.optimizer.profile;
  golden.settings_digest = settings_digest(scenario.settings);
  golden.machine = "{}";
  for (const auto& [step, state] : states) {
    if (step < scenario.settings.save_after) continue;
    for (const auto& [key, tensor] : state.tensors) {
      golden.steps[step][key] = {std::string(name_of(tensor.dtype)), tensor.shape, digest(tensor)};
    }
  }
  golden.digest = digest_of_steps(golden);
  return golden;
}

void write_golden(const Golden& golden) {
  std::filesystem::create_directories(golden.file.parent_path());
  write_file(golden.file, json_of(golden).dump(1) + "\n");
}

std::vector<GoldenDifference> differences(const Golden& want, const Golden& got) {
  std::vector<GoldenDifference> all;
  std::set<std::int64_t> steps;
  for (const auto& [step, tensors] : want.steps) steps.insert(step);
  for (const auto& [step, tensors] : got.steps) steps.insert(step);
  for (const std::int64_t step : steps) {
    const auto tensors_of = [&](const Golden& golden) {
      const auto found = golden.steps.find(step);
      return found == golden.steps.end() ? std::map<TensorKey, GoldenTensor>() : found->second;
    };
    const auto wanted = tensors_of(want), given = tensors_of(got);
    std::set<TensorKey> keys;
    for (const auto& [key, tensor] : wanted) keys.insert(key);
    for (const auto& [key, tensor] : given) keys.insert(key);
    for (const TensorKey& key : keys) {
      const auto in_want = wanted.find(key), in_got = given.find(key);
      if (in_want != wanted.end() && in_got != given.end() && in_want->second == in_got->second) {
        continue;
      }
      all.push_back({step, key,
                     fmt::format("want {}, got {}",
                                 in_want == wanted.end() ? "nothing" : text_of(in_want->second),
                                 in_got == given.end() ? "nothing" : text_of(in_got->second))});
    }
  }
  return all;
}

}  // namespace resumecheck
