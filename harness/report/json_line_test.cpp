// results.jsonl is what everything else is rendered from: its field names are a contract, and a
// field that is written but not read back, or the reverse, would be lost without a sign.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/report/example_result.h"
#include "harness/report/report.h"
#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

using Json = nlohmann::json;

TEST(JsonLine, HasTheFieldsOfTheContract) {
  const Json json = Json::parse(to_json_line(full_result(), "the-run"));
  const Json expected = Json::parse(R"({
    "schema": 1, "run_id": "the-run",
    "case": "adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]",
    "scenario": "adamw8bit/moments_survive_dp_shrink", "variant": "adamw8bit,bf16",
    "adapter": "torchao",
    "save_environment": {"name": "torch-2.8", "packages": {"torch": "2.8.0", "torchao": "0.12.0"}},
    "load_environment": {"name": "torch-2.15", "packages": {"torch": "2.15.0"}},
    "from": "dp4", "onto": "dp2", "device": "cuda", "stand_ins": ["nccl over host memory"],
    "verdict": "XFAIL", "failed_at": "after_load", "symptom": "expected dtype \"bf16\"",
    "reason": "a reason", "known_broken": "pytorch/ao#3314",
    "oracles": {"after_load": "pass", "trajectory": "fail", "golden": "not_reached"},
    "compared": {"tensors": 12, "bytes": 5000000000},
    "fits": [{"name": "rounded through bf16", "fits": 3, "of": 3,
              "detail": "rank 1 holds the shard of rank 2"}],
    "does_not_fit": ["fresh start", "one step stale", "another rank's shard", "requantised"],
    "holders": ["saved by rank 2 of dp4", "held by rank 1 of dp2"],
    "notes": ["confirmed cold", "two dtypes"],
    "process": "forked", "transport": "gloo", "golden": "0123456789abcdef0123456789abcdef",
    "save_after": 3, "seconds": 1.25, "attempt": 2,
    "again": "resumecheck run 'adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]'",
    "artifacts": "out/artifacts/x", "want_file": "out/artifacts/x/want.safetensors",
    "got_file": "out/artifacts/x/got.safetensors",
    "parts": {"param": {"same": 3, "total": 3}, "step": {"same": 3, "total": 3},
      "moment1.codes": {"same": 3, "total": 3}, "moment2.codes": {"same": 3, "total": 3},
      "moment1.codebook": {"same": 3, "total": 3}, "moment2.codebook": {"same": 3, "total": 3},
      "moment1.scale": {"same": 3, "total": 3}, "moment2.scale": {"same": 2, "total": 3}},
    "first_difference": {"kind": "dtype", "name": "ffn.up", "part": "moment2.scale",
      "elements": 24, "differing": 3, "first_index": 17, "block": 256, "blocks": 24,
      "differing_blocks": 3, "first_block": 17, "largest_ulp": 18446744073709551615,
      "want": "0x3d1c4321  0.03815", "got": "0x3d1c0000  0.0380859"}})");
  EXPECT_EQ(Json::diff(expected, json).dump(1), "[]");
}

TEST(JsonLine, ComesBackAsItWas) {
  for (const CaseResult& result : {full_result(), example_failure(), CaseResult(),
                                   result_of_verdict("a/b[x]", Verdict::pass)}) {
    const std::string line = to_json_line(result, "run");
    EXPECT_EQ(to_json_line(from_json_line(line), "run"), line);
  }
  EXPECT_FALSE(from_json_line(to_json_line(CaseResult(), "")).save_environment.has_value());
}

TEST(JsonLine, IsOneLineOfUtf8WhateverAFrameworkSaid) {
  CaseResult result = result_of_verdict("a/b[x]", Verdict::fail);
  result.symptom = "line\nline\r\x01\xff\xC3 \xE2\x82\xAC";
  const std::string line = to_json_line(result, "run");
  EXPECT_EQ(line.find('\n'), line.npos);
  EXPECT_EQ(from_json_line(line).symptom, "line\nline\r\x01\xEF\xBF\xBD\xEF\xBF\xBD \xE2\x82\xAC");
}

TEST(JsonLine, RefusesWhatIsNoResult) {
  const std::string good = to_json_line(full_result(), "run");
  for (const std::string& line :
       {std::string(), std::string("{}"), std::string("[1]"), std::string("null"),
        good.substr(0, good.size() / 2), good + good}) {
    SCOPED_TRACE(line.substr(0, 80));
    expect_error(Error::Kind::harness, {"results.jsonl"}, [&] { from_json_line(line); });
  }
  const Json whole = Json::parse(good);
  for (const auto& [key, value] : whole.items()) {
    if (key == "run_id") continue;
    Json without = whole;
    without.erase(key);
    SCOPED_TRACE("without " + key);
    expect_error(Error::Kind::harness, {"results.jsonl"}, [&] { from_json_line(without.dump()); });
  }
  Json verdict = whole;
  verdict["verdict"] = "GREEN";
  expect_error(Error::Kind::harness, {"GREEN"}, [&] { from_json_line(verdict.dump()); });
}

}  // namespace
}  // namespace resumecheck
