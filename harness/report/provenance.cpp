// On what a run's results were obtained: enough to explain why another machine differs, and nothing
// that names the machine or its owner. What is not found is null, never guessed.
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "build_identity.h"
#include "harness/report/report.h"
#include "harness/scenario/machine.h"
#include "harness/scenario/program_output.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string read_text(const fs::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// The value of the first "name : value" line.
std::string field(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos && trimmed(line.substr(0, colon)) == name) {
      return trimmed(line.substr(colon + 1));
    }
  }
  return {};
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json cpu() {
  const std::string info = read_text("/proc/cpuinfo");
  std::string flags = field(info, "flags");
  if (flags.empty()) flags = field(info, "Features");
  std::istringstream stream(flags);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  Json vector = Json::array();
  for (const char* name : {"sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512dq",
                           "avx512vl", "avx512_bf16", "amx_bf16", "asimd", "sve"}) {
    if (std::find(words.begin(), words.end(), name) != words.end()) {
      vector.push_back(name);
    }
  }
  return {{"model", or_null(field(info, "model name"))},
          {"cores", std::thread::hardware_concurrency()},
          {"vector", vector}};
}

Json gpus_by_files() {
  Json gpus = Json::array();
  std::error_code failed;
  for (fs::directory_iterator entry("/proc/driver/nvidia/gpus", failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string model = field(read_text(entry->path() / "information"), "Model");
    if (!model.empty()) gpus.push_back(model);
  }
  return gpus;
}

// "Kernel Module for x86_64  580.65.06" somewhere in the first line.
std::string driver_by_files() {
  std::istringstream words(read_text("/proc/driver/nvidia/version"));
  for (std::string word; words >> word;) {
    const bool version =
        word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos;
    if (version) return word;
  }
  return {};
}

void add_gpus(Json& machine) {
  machine["gpus"] = Json::array();
  machine["driver"] = nullptr;
  if (cuda_devices() == 0) return;
  machine["gpus"] = gpus_by_files();
  machine["driver"] = or_null(driver_by_files());
  const ProgramOutput smi =
      run_program({"nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"}, 10);
  if (smi.exit_status != 0) return;
  machine["gpus"] = Json::array();
  std::istringstream lines(smi.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comma = line.rfind(',');
    if (comma == line.npos) continue;
    machine["gpus"].push_back(trimmed(line.substr(0, comma)));
    machine["driver"] = trimmed(line.substr(comma + 1));
  }
}

std::string cuda_version() {
  const Json version = Json::parse(read_text("/usr/local/cuda/version.json"), nullptr, false);
  if (!version.is_object() || !version.contains("cuda")) return {};
  return version["cuda"].value("version", "");
}

// libnccl.so.2 is a link to libnccl.so.2.27.3.
std::string nccl_version() {
  const auto library = nccl_library();
  if (!library) return {};
  std::error_code failed;
  const std::string name = fs::canonical(*library, failed).filename();
  const std::string prefix = "libnccl.so.";
  const std::string version = !failed && name.starts_with(prefix) ? name.substr(prefix.size()) : "";
  return version.find('.') == version.npos ? std::string() : version;  // "2" is only the interface
}

// The commit of the checkout that scenarios and goldens come from, which need not be the one that
// was built.
std::string checkout_commit(const fs::path& root) {
  const std::string head = trimmed(read_text(root / ".git" / "HEAD"));
  const std::string prefix = "ref: ";
  if (!head.starts_with(prefix)) return head;
  const std::string name = head.substr(prefix.size());
  const std::string commit = trimmed(read_text(root / ".git" / name));
  if (!commit.empty()) return commit;
  std::istringstream lines(read_text(root / ".git" / "packed-refs"));
  for (std::string hash, ref; lines >> hash >> ref;) {
    if (ref == name) return hash;
  }
  return {};
}

std::string new_run_id() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ-", &utc);
  std::random_device random;
  std::string id = text;
  for (int i = 0; i < 8; ++i) id += "0123456789abcdef"[random() % 16];
  return id;
}

}  // namespace

Provenance read_provenance(const fs::path& root) {
  Json machine;
  machine["cpu"] = cpu();
  utsname system = {};
  uname(&system);
  machine["kernel"] = std::string(system.sysname) + " " + system.release;
  machine["architecture"] = system.machine;
  machine["glibc"] = gnu_get_libc_version();
  add_gpus(machine);
  machine["cuda"] = or_null(cuda_version());
  machine["nccl"] = or_null(nccl_version());
  machine["harness"] = {{"version", RESUMECHECK_VERSION},
                        {"commit", RESUMECHECK_COMMIT},
                        {"checkout", or_null(checkout_commit(root))},

                        {"compiler", RESUMECHECK_COMPILER},
                        {"flags", RESUMECHECK_FLAGS}};
  return {new_run_id(), machine.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

std::string built_commit() { return RESUMECHECK_COMMIT; }

std::string build_text() {
  const std::string commit = built_commit();
  return RESUMECHECK_VERSION + (commit.empty() ? std::string() : " (" + commit.substr(0, 12) + ")");
}

}  // namespace resumecheck
