// Reads a safetensors file with the project's reader and writes what it read with the project's
// writer, so that the official package can be asked, from Python, whether both agree with it.
// Usage: safetensors_echo FROM ONTO. Exit code 0, or 3 with the Error on one line.

#include <cstdio>

#include "harness/state/error.h"
#include "harness/state/safetensors.h"

int main(int count, char** words) {
  using namespace resumecheck;
  if (count != 3) {
    std::fputs("usage: safetensors_echo FROM ONTO\n", stderr);
    return 2;
  }
  try {
    const SafetensorsFile file(words[1]);
    std::vector<Bytes> bytes;
    for (const SafetensorsEntry& entry : file.entries()) bytes.push_back(file.read(entry));
    std::vector<TensorToWrite> tensors;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const SafetensorsEntry& entry = file.entries()[i];
      tensors.push_back({entry.name, entry.dtype, entry.shape, bytes[i]});
    }
    write_safetensors(words[2], tensors, file.metadata());
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
