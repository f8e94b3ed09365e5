// What a rank is told must be complete and unambiguous: whatever a rank would have to default, two
// implementations (C++ and Python) would sooner or later default differently. So defaults are
// resolved here, a key that is missing or mistyped is an error that names it, and faults go only to
// the phase in which they are to happen.
#include "harness/phases/phase_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/phases/fault.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json to_json(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Value value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return json.get<std::string>();
}

Json text_or_null(const fs::path& path) { return path.empty() ? Json() : Json(path.string()); }

Json to_json(const Settings::Model& model) {
  return {{"kind", model.kind},
          {"layers", model.layers},
          {"width", model.width},
          {"hidden", model.hidden},
          {"tied", model.tied},
          {"experts", model.experts},
          {"dropout", model.dropout},
          {"frozen", model.frozen},
          {"frozen_from", model.frozen_from},
          {"frozen_until", model.frozen_until}};
}

Json to_json(const Settings::Fp8& fp8) {
  return {{"recipe", fp8.recipe},
          {"amax_history_len", fp8.amax_history_len},
          {"amax_compute_algo", fp8.amax_compute_algo},
          {"margin", fp8.margin},
          {"format", fp8.format},
          {"update", fp8.update},
          {"reduce_amax", fp8.reduce_amax}};
}

Json to_json(const std::vector<Settings::Optimizer::Group>& groups) {
  Json all = Json::array();
  for (const auto& group : groups) {
    all.push_back(
        {{"parameters", group.parameters}, {"lr", group.lr}, {"weight_decay", group.weight_decay}});
  }
  return all;
}

Json to_json(const Settings& settings, std::uint64_t init_seed) {
  Json parameters = Json::object();
  for (const auto& [name, shape] : settings.parameters) parameters[name] = shape;
  const Settings::Optimizer& optimizer = settings.optimizer;
  return {{"seed", settings.seed},
          {"init_seed", init_seed},
          {"parameters", parameters},
          {"param_dtype", settings.param_dtype},
          {"master_dtype", settings.master_dtype},
          {"model", to_json(settings.model)},
          {"fp8", to_json(settings.fp8)},
          {"optimizer",
           {{"name", optimizer.name},
            {"profile", optimizer.profile},
            {"profile_after_save", optimizer.profile_after_save},
            {"lr", optimizer.lr},
            {"betas", {optimizer.beta1, optimizer.beta2}},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weight_decay},
            {"block", optimizer.block},
            {"min_quantised_elements", optimizer.min_quantised_elements},
            {"stochastic_rounding", optimizer.stochastic_rounding},
            {"groups", to_json(optimizer.groups)},
            {"schedule", optimizer.schedule},
            {"schedule_steps", optimizer.schedule_steps},
            {"clip_norm", optimizer.clip_norm}}},
          {"loss_scale",
           {{"initial", settings.loss_scale.initial},
            {"growth_interval", settings.loss_scale.growth_interval},
            {"largest", settings.loss_scale.largest}}},
          {"gradients", settings.gradients},
          {"data", settings.data},
          {"accumulate", settings.accumulate},
          {"save_after", settings.save_after},
          {"train_until", settings.train_until},
          {"resumes", settings.resumes},
          {"save_format", settings.save_format}};
}

// Reads an object's keys and remembers the path to each, so that a mistake is named in full.
class Reader {
 public:
  Reader(const fs::path& file, const Json& json, std::string place)
      : file_(file), json_(json), place_(std::move(place)) {
    if (!json.is_object()) {
      throw Error(Error::Kind::harness, file.string(),
                  (place_.empty() ? "it" : place_) + " is not a JSON object");
    }
  }

  const Json& raw(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw wrong(key, "is missing");
    return *found;
  }

  template <typename T>
  T get(const char* key) const {
    try {
      return raw(key).get<T>();
    } catch (const nlohmann::json::exception& problem) {
      throw wrong(key, fmt::format("has the wrong type ({})", problem.what()));
    }
  }

  Reader object(const char* key) const { return {file_, raw(key), path(key)}; }
  Reader element(const char* key, const Json& one) const { return {file_, one, path(key)}; }

  Error wrong(const char* key, const std::string& what) const {
    return Error(Error::Kind::harness, file_.string(), fmt::format("key {} {}", path(key), what),
                 "a phase request is written by resumecheck of the same version");
  }

 private:
  std::string path(const char* key) const { return place_.empty() ? key : place_ + "." + key; }

  const fs::path& file_;
  const Json& json_;
  std::string place_;
};

Settings::Model read_model(const Reader& reader) {
  Settings::Model model;
  model.kind = reader.get<std::string>("kind");
  model.layers = reader.get<std::int64_t>("layers");
  model.width = reader.get<std::int64_t>("width");
  model.hidden = reader.get<std::int64_t>("hidden");
  model.tied = reader.get<bool>("tied");
  model.experts = reader.get<std::int64_t>("experts");
  model.dropout = reader.get<double>("dropout");
  model.frozen = reader.get<std::vector<std::string>>("frozen");
  model.frozen_from = reader.get<std::int64_t>("frozen_from");
  model.frozen_until = reader.get<std::int64_t>("frozen_until");
  return model;
}

Settings::Fp8 read_fp8(const Reader& reader) {
  Settings::Fp8 fp8;
  fp8.recipe = reader.get<std::string>("recipe");
  fp8.amax_history_len = reader.get<std::int64_t>("amax_history_len");
  fp8.amax_compute_algo = reader.get<std::string>("amax_compute_algo");
  fp8.margin = reader.get<std::int64_t>("margin");
  fp8.format = reader.get<std::string>("format");
  fp8.update = reader.get<std::string>("update");
  fp8.reduce_amax = reader.get<bool>("reduce_amax");
  return fp8;
}

Settings::Optimizer read_optimizer(const Reader& reader) {
  Settings::Optimizer optimizer;
  optimizer.name = reader.get<std::string>("name");
  optimizer.profile = reader.get<std::string>("profile");
  optimizer.profile_after_save = reader.get<std::string>("profile_after_save");
  optimizer.lr = reader.get<double>("lr");
  const auto betas = reader.get<std::vector<double>>("betas");
  if (betas.size() != 2) throw reader.wrong("betas", "needs two numbers");
  optimizer.beta1 = betas[0];
  optimizer.beta2 = betas[1];
  optimizer.eps = reader.get<double>("eps");
  optimizer.weight_decay = reader.get<double>("weight_decay");
  optimizer.block = reader.get<std::int64_t>("block");
  optimizer.min_quantised_elements = reader.get<std::int64_t>("min_quantised_elements");
  optimizer.stochastic_rounding = reader.get<bool>("stochastic_rounding");
  for (const Json& group : reader.raw("groups")) {
    const Reader one = reader.element("groups", group);
    optimizer.groups.push_back({one.get<std::vector<std::string>>("parameters"),
                                one.get<double>("lr"), one.get<double>("weight_decay")});
  }
  optimizer.schedule = reader.get<std::string>("schedule");
  optimizer.schedule_steps = reader.get<std::int64_t>("schedule_steps");
  optimizer.clip_norm = reader.get<double>("clip_norm");
  return optimizer;
}

Settings::LossScale read_loss_scale(const Reader& reader) {
  return {reader.get<double>("initial"), reader.get<std::int64_t>("growth_interval"),
          reader.get<double>("largest")};
}

Settings read_settings(const Reader& reader) {
  Settings settings;
  settings.seed = reader.get<std::uint64_t>("seed");
  for (const auto& [name, shape] : reader.raw("parameters").items()) {
    settings.parameters.emplace_back(name, shape.get<Shape>());
  }
  settings.param_dtype = reader.get<std::string>("param_dtype");
  settings.master_dtype = reader.get<std::string>("master_dtype");
  settings.model = read_model(reader.object("model"));
  settings.fp8 = read_fp8(reader.object("fp8"));
  settings.optimizer = read_optimizer(reader.object("optimizer"));
  settings.loss_scale = read_loss_scale(reader.object("loss_scale"));
  settings.gradients = reader.get<std::string>("gradients");
  settings.data = reader.get<std::string>("data");
  settings.accumulate = reader.get<std::int64_t>("accumulate");
  settings.save_after = reader.get<std::int64_t>("save_after");
  settings.train_until = reader.get<std::int64_t>("train_until");
  settings.resumes = reader.get<std::int64_t>("resumes");
  settings.save_format = reader.get<std::string>("save_format");
  return settings;
}

PhaseRequest parse(const fs::path& file, const Json& json) {
  const Reader reader(file, json, "");
  if (reader.get<int>("schema") != 1) throw reader.wrong("schema", "is not 1");
  PhaseRequest request;
  request.phase = reader.get<std::string>("phase");
  if (request.phase != "save_run" && request.phase != "resume_run") {
    throw reader.wrong("phase", "is neither save_run nor resume_run");
  }
  request.case_name = reader.get<std::string>("case");
  request.adapter = reader.get<std::string>("adapter");
  for (const auto& [name, value] : reader.raw("options").items()) {
    request.options[name] = value_of(value);
  }
  request.mesh = Mesh::parse(reader.get<std::string>("mesh"));
  request.save_mesh = Mesh::parse(reader.get<std::string>("save_mesh"));
  request.device = reader.get<std::string>("device");
  const Reader settings = reader.object("settings");
  request.settings = read_settings(settings);
  request.init_seed = settings.get<std::uint64_t>("init_seed");
  request.checkpoint = reader.get<std::string>("checkpoint");
  if (const Json& next = reader.raw("next_checkpoint"); next.is_string()) {
    request.next_checkpoint = next.get<std::string>();
  }
  request.states = reader.get<std::string>("states");
  request.records = reader.get<std::string>("records");
  if (const Json& scenario = reader.raw("scenario_file"); scenario.is_string()) {
    request.scenario_file = scenario.get<std::string>();
  }
  for (const Json& fault : reader.raw("faults")) {
    const Reader one = reader.element("faults", fault);
    FaultSpec spec{one.get<std::string>("name"), std::nullopt, one.get<std::string>("at")};
    if (const Json& rank = one.raw("rank"); rank.is_number()) spec.rank = rank.get<int>();
    request.faults.push_back(spec);
  }
  request.limit_seconds = reader.get<double>("limit_s");
  return request;
}

PhaseRequest common_request(const Case& c, const std::string& phase, const Mesh& mesh) {
  const Scenario& scenario = *c.scenario;
  PhaseRequest request;
  request.phase = phase;
  request.case_name = c.name();
  request.adapter = c.adapter;
  if (const auto found = scenario.adapter_options.find(c.adapter);
      found != scenario.adapter_options.end()) {
    request.options = found->second;
  }
  request.mesh = mesh;
  request.save_mesh = c.from;
  request.device = c.device;
  request.settings = c.settings();
  if (scenario.carrier == "py") request.scenario_file = fs::absolute(scenario.file);
  request.faults = faults_of_phase(scenario.faults, phase, mesh, request.settings);
  return request;
}

}  // namespace

PhaseRequest save_run_request(const Case& c, const fs::path& folder) {
  PhaseRequest request = common_request(c, "save_run", c.from);
  request.init_seed = request.settings.seed;
  request.checkpoint = fs::absolute(folder / "checkpoint");
  request.states = fs::absolute(folder / "states");
  request.records = fs::absolute(folder / "records");
  return request;
}

std::vector<PhaseRequest> resume_run_requests(const Case& c, const fs::path& save_folder,
                                              const fs::path& folder) {
  std::vector<PhaseRequest> requests;
  const std::int64_t count = c.scenario->settings.resumes;
  fs::path checkpoint = fs::absolute(save_folder / "checkpoint");
  for (std::int64_t i = 0; i < count; ++i) {
    PhaseRequest request = common_request(c, "resume_run", i % 2 == 0 ? c.onto : c.from);
    request.save_mesh = i % 2 == 0 ? c.from : c.onto;
    Settings& settings = request.settings;
    request.init_seed = settings.seed + 1 + static_cast<std::uint64_t>(i);
    settings.save_after += i;
    const fs::path own = i == 0 ? folder : folder / fmt::format("resume{}", i + 1);
    request.checkpoint = checkpoint;
    if (i + 1 < count) {
      settings.train_until = settings.save_after + 1;
      checkpoint = request.next_checkpoint = fs::absolute(own / "checkpoint");
    }
    request.states = fs::absolute(own / "states");
    request.records = fs::absolute(own / "records");
    requests.push_back(request);
  }
  return requests;
}

fs::path step_folder(const fs::path& states, std::int64_t step) {
  return states / fmt::format("step{}", step);
}

void write_phase_request(const fs::path& file, const PhaseRequest& request) {
  Json dims = Json::array();
  for (const MeshDim& dim : request.mesh.dims()) dims.push_back({dim.name, dim.size});
  Json options = Json::object();
  for (const auto& [name, value] : request.options) options[name] = to_json(value);
  Json faults = Json::array();
  for (const FaultSpec& fault : request.faults) {
    faults.push_back({{"name", fault.name},
                      {"rank", fault.rank ? Json(*fault.rank) : Json(nullptr)},
                      {"at", fault.at}});
  }
  const Json json = {{"schema", 1},
                     {"phase", request.phase},
                     {"case", request.case_name},
                     {"adapter", request.adapter},
                     {"options", options},
                     {"mesh", request.mesh.text()},
                     {"dims", dims},
                     {"device", request.device},
                     {"settings", to_json(request.settings, request.init_seed)},
                     {"save_mesh", request.save_mesh.text()},
                     {"checkpoint", request.checkpoint.string()},
                     {"next_checkpoint", text_or_null(request.next_checkpoint)},
                     {"states", request.states.string()},
                     {"records", request.records.string()},
                     {"scenario_file", text_or_null(request.scenario_file)},
                     {"faults", faults},
                     {"limit_s", request.limit_seconds}};
  const std::string text = json.dump(1) + "\n";
  write_file(file, {std::as_bytes(std::span(text))}, Durability::survives_the_process);
}

PhaseRequest read_phase_request(const fs::path& file) {
  const std::string text = read_file(file);
  try {
    return parse(file, Json::parse(text));
  } catch (const nlohmann::json::exception& problem) {
    throw Error(Error::Kind::harness, file.string(),
                fmt::format("is no phase request: {}", problem.what()));
  }
}

}  // namespace resumecheck
