// Compares every kernel on a device, and every host build that this machine can run, with the slow
// twin. It stands alone: the standard library, this folder and, where there is one, the CUDA
// runtime. Without a device it says so and answers 77; it never counts a device that it did not
// run.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/contracted.h"
#include "kernels/float_environment.h"
#include "kernels/model_twin_comparison.h"
#include "kernels/twin_comparison.h"

namespace resumecheck::kernels {
namespace {

constexpr int exit_equal = 0, exit_different = 1, exit_usage = 2, exit_no_device = 77;

constexpr const char* usage =
    "usage: gpu_check [--on device|host|forbidden-flags] [--repetitions N] [--output FILE]\n"
    "  --on device           (default) the CUDA device and the host builds\n"
    "  --on host             the host builds alone\n"
    "  --on forbidden-flags  a build with -ffast-math in the device's place: must be found "
    "different\n"
    "  --repetitions N       how often the random inputs are drawn anew (default 20)\n"
    "  --output FILE         the result as JSON (default out/gpu_check.json)\n"
    "exit: 0 equal, 1 different, 2 usage, 3 it could not run, 77 no device\n";

struct Options {
  std::string on = "device", output = "out/gpu_check.json";
  int repetitions = 20;
};

struct SubjectResult {
  std::string name;
  std::vector<Outcome> outcomes;
  double seconds = 0;
};

struct Report {
  bool has_device = false;
  DeviceDescription device;
  std::vector<SubjectResult> subjects;
  std::string verdict, reason;
  double seconds = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// ---- Reading the command line --------------------------------------------------------------

bool read_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "--on") {
    options.on = value;
    return value == "device" || value == "host" || value == "forbidden-flags";
  }
  if (name == "--repetitions") {
    char* end = nullptr;
    const long number = std::strtol(value.c_str(), &end, 10);
    options.repetitions = static_cast<int>(number);
    return !value.empty() && *end == '\0' && number >= 1 && number <= 100000;
  }
  if (name == "--output") {
    options.output = value;
    return !value.empty();
  }
  return false;
}

bool read_options(Options& options, int argc, char** argv) {
  for (int i = 1; i < argc; i += 2)
    if (i + 1 >= argc || !read_option(options, argv[i], argv[i + 1])) return false;
  return true;
}

// ---- Writing the result -----------------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    char escape[8];
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (code < 0x20 || code > 0x7e) {
      std::snprintf(escape, sizeof escape, "\\u%04x", code);
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", number);
  return text;
}

std::string json_of(const Outcome& outcome) {
  return "{\"kernel\": " + quoted(outcome.kernel) +
         ", \"cases\": " + std::to_string(outcome.cases) +
         ", \"elements\": " + std::to_string(outcome.elements) +
         ", \"mismatches\": " + std::to_string(outcome.mismatches) + ", \"first_mismatch\": " +
         (outcome.first_mismatch.empty() ? "null" : quoted(outcome.first_mismatch)) + "}";
}

std::string json_of(const SubjectResult& subject) {
  std::string text = "    {\"name\": " + quoted(subject.name) +
                     ", \"seconds\": " + number_text(subject.seconds) + ", \"kernels\": [";
  for (std::size_t i = 0; i < subject.outcomes.size(); ++i)
    text += (i == 0 ? "\n      " : ",\n      ") + json_of(subject.outcomes[i]);
  return text + "]}";
}

std::string json_of(const Report& report) {
  std::string text = "{\"schema\": 1,\n  \"device\": ";
  text += report.has_device
              ? "{\"name\": " + quoted(report.device.name) + ", \"compute_capability\": \"" +
                    std::to_string(report.device.compute_major) + "." +
                    std::to_string(report.device.compute_minor) + "\", \"driver\": \"" +
                    version_text(report.device.driver_version) + "\", \"runtime\": \"" +
                    version_text(report.device.runtime_version) + "\"}"
              : "null";
  text += ",\n  \"subjects\": [\n";
  for (std::size_t i = 0; i < report.subjects.size(); ++i)
    text += json_of(report.subjects[i]) + (i + 1 < report.subjects.size() ? ",\n" : "\n");
  return text + "  ],\n  \"verdict\": " + quoted(report.verdict) +
         ", \"reason\": " + (report.reason.empty() ? "null" : quoted(report.reason)) +
         ", \"seconds\": " + number_text(report.seconds) + "}\n";
}

// By temporary file and rename: a reader never finds half a result.
void write_report(const Report& report, const std::string& path) {
  const std::filesystem::path target(path);
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path());
  const std::string temporary = path + ".tmp", text = json_of(report);
  std::FILE* file = std::fopen(temporary.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("gpu_check: cannot write " + temporary);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    throw std::runtime_error("gpu_check: cannot write all of " + temporary + ": is the disk full?");
  std::filesystem::rename(temporary, target);
}

void print_table(const Report& report) {
  std::printf("%-16s %-30s %8s %12s %12s\n", "build", "kernel", "cases", "elements", "mismatches");
  for (const SubjectResult& subject : report.subjects)
    for (const Outcome& outcome : subject.outcomes) {
      std::printf("%-16s %-30s %8lld %12lld %12lld\n", subject.name.c_str(), outcome.kernel.c_str(),
                  static_cast<long long>(outcome.cases), static_cast<long long>(outcome.elements),
                  static_cast<long long>(outcome.mismatches));
      if (!outcome.first_mismatch.empty())
        std::printf("    first: %s\n", outcome.first_mismatch.c_str());
    }
  std::printf("%s in %.1f s%s%s\n", report.verdict.c_str(), report.seconds,
              report.reason.empty() ? "" : ": ", report.reason.c_str());
}

// ---- What is compared --------------------------------------------------------------------------

// Everything of one build.
struct Build {
  Subject optimizer;
  ModelKernels model;
};

Build host_build(Isa isa) { return {host_subject(isa), host_model_kernels(isa)}; }

Build device_build() {
  return {{"device", update_quantised_on_device, finish_cut_block_on_device, update_plain_on_device,
           quantise_on_device, dequantise_on_device},
          device_model_kernels()};
}

Build forbidden_flags_build() {
  Build build = host_build(best_isa());
  build.optimizer.name = "forbidden flags";
  build.optimizer.update = update_quantised_fast_math;
  build.model = model_kernels_fast_math();
  return build;
}

std::vector<Build> builds_for(const Options& options, Report& report) {
  std::vector<Build> builds;
  if (options.on == "device") {
    report.device = describe_device();
    report.has_device = true;
    builds.push_back(device_build());
  }
  if (options.on == "forbidden-flags") builds.push_back(forbidden_flags_build());
  for (const Isa isa : available_isas()) builds.push_back(host_build(isa));
  return builds;
}

std::vector<Outcome> compare_all(const Build& build, int repetitions) {
  std::vector<Outcome> outcomes = compare_with_twin(build.optimizer, repetitions);
  for (Outcome& outcome : compare_model_with_twin(build.model, repetitions))
    outcomes.push_back(std::move(outcome));
  return outcomes;
}

bool compare(const Build& build, int repetitions, Report& report) {
  const auto start = std::chrono::steady_clock::now();
  SubjectResult result;
  result.name = build.optimizer.name;
  result.outcomes = compare_all(build, repetitions);
  result.seconds = seconds_since(start);
  bool equal = !result.outcomes.empty();
  for (const Outcome& outcome : result.outcomes)
    equal = equal && outcome.mismatches == 0 && outcome.elements > 0;
  report.subjects.push_back(std::move(result));
  return equal;
}

int finish(Report& report, const Options& options, std::chrono::steady_clock::time_point start,
           int exit_code) {
  report.seconds = seconds_since(start);
  write_report(report, options.output);
  print_table(report);
  return exit_code;
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Report report;
  check_float_environment();
  if (options.on == "device" && device_count() == 0) {
    report.verdict = "no device";
    report.reason =
        "no CUDA device was found, or this program was built without CUDA; nothing was "
        "compared";
    return finish(report, options, start, exit_no_device);
  }
  bool equal = true;
  for (const Build& build : builds_for(options, report))
    equal = compare(build, options.repetitions, report) && equal;
  report.verdict = equal ? "equal" : "different";
  return finish(report, options, start, equal ? exit_equal : exit_different);
}

}  // namespace
}  // namespace resumecheck::kernels

int main(int argc, char** argv) {
  resumecheck::kernels::Options options;
  if (!resumecheck::kernels::read_options(options, argc, argv)) {
    std::fputs(resumecheck::kernels::usage, stderr);
    return resumecheck::kernels::exit_usage;
  }
  try {
    return resumecheck::kernels::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 3;
  }
}
