#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "harness/report/report.h"

namespace resumecheck {
namespace {

TEST(Provenance, SaysWhatCanExplainAnotherResult) {
  const Provenance provenance = read_provenance(RESUMECHECK_SOURCE_DIR);
  const auto machine = nlohmann::json::parse(provenance.json);
  for (const char* key :
       {"cpu", "kernel", "architecture", "glibc", "gpus", "driver", "cuda", "nccl", "harness"}) {
    EXPECT_TRUE(machine.contains(key)) << key << " is missing, and null would say not found";
  }
  EXPECT_TRUE(machine["cpu"]["vector"].is_array());
  EXPECT_TRUE(machine["gpus"].is_array());
  const std::string flags = machine["harness"]["flags"];
  EXPECT_NE(flags.find("-ffp-contract=off"), flags.npos) << flags;
  EXPECT_EQ(flags.find("$<"), flags.npos) << flags;
  const std::string commit = machine["harness"]["commit"];
  EXPECT_TRUE(std::regex_match(commit, std::regex("[0-9a-f]{40}|unknown"))) << commit;
}

TEST(Provenance, NamesNoMachine) {
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof host - 1), 0);
  const std::string json = read_provenance(RESUMECHECK_SOURCE_DIR).json;
  const std::string name = host;
  if (name.size() > 5) {
    EXPECT_EQ(json.find(name), json.npos);
  }
}

TEST(Provenance, EveryRunHasAnIdOfItsOwn) {
  const std::string one = read_provenance("/").run_id;
  EXPECT_TRUE(std::regex_match(one, std::regex("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}"))) << one;
  EXPECT_NE(one, read_provenance("/").run_id);
}

}  // namespace
}  // namespace resumecheck
