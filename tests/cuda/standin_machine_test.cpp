// What the CUDA library makes of the machine it is on, which stand-ins pretend: drivers, devices,
// ways between them.
#include <gmock/gmock.h>

#include "tests/cuda/standin_program.h"

namespace unlatch::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string train =
    fmt::format("train --schedule 1f1b --stages 2 --microbatches 2 --steps 4 {} --save w", lenet);

TEST(StandInMachine, SaysWhatWasCompiledLoadedAndWhichDriverThereIs) {
  const Folder folder;
  const Outcome outcome = run(folder, "driver=99010", fmt::format("{} {}", train, on_one));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("device 0: stand-in (no device); CUDA "),
                                 HasSubstr(", driver 99.1), cuBLAS ")));
}

/// O42: both numbers.
TEST(StandInMachine, RefusesDriversAndLibrariesThatAreTooOld) {
  const Folder folder;
  const auto refused = [&](const char* settings, const auto& message) {
    SCOPED_TRACE(settings);
    const Outcome outcome = run(folder, settings, fmt::format("{} {}", train, on_one));
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, message);
    EXPECT_EQ(folder.files(), 0);
  };
  refused("driver=11080", AllOf(HasSubstr("the driver of this machine is for CUDA 11.8, the CUDA "
                                          "runtime needs one for "),
                                HasSubstr(", driver 11.8)")));
  refused("runtime=11080", AllOf(HasSubstr("needs the CUDA runtime"), HasSubstr("(loaded 11.8,")));
  refused("runtime=99000,driver=99000", HasSubstr("(loaded 99.0,"));
  refused("cublas=110000", AllOf(HasSubstr("cuBLAS"), HasSubstr("(loaded 11.0.0)")));
  refused("nccl=20100", AllOf(HasSubstr("NCCL"), HasSubstr("(loaded 2.1.0)")));
  refused("driver=-1", HasSubstr("no CUDA device: CUDA driver version is insufficient"));
}

TEST(StandInMachine, RefusesADeviceThatNoCompiledCodeFits) {
  const Folder folder;
  const auto on = [&](const char* devices) {
    return run(folder, "devices=2,old_device=1",
               fmt::format("{} --device {} --share-device yes", train, devices));
  };
  for (const char* devices : {"cuda:1", "cuda:0,1"}) {
    const Outcome outcome = on(devices);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(folder.files(), 0);
    EXPECT_THAT(outcome.err,
                HasSubstr("error: device 1 (stand-in (no device)) has compute capability 5.2, and "
                          "the CUDA library of unlatch is compiled for "));
    EXPECT_THAT(outcome.err, HasSubstr("; configure it with -DCMAKE_CUDA_ARCHITECTURES=52\n"));
  }
  EXPECT_EQ(on("cuda:0").code, 0) << "a device that nobody asked for does not matter";
}

/// O40: rank 0's memory is on the device that is named first.
TEST(StandInMachine, PutsRanksOnTheDevicesInTheOrderGiven) {
  for (const auto& [devices, first, second] :
       {std::tuple("cuda:1,0", 1, 0), std::tuple("cuda:0,1", 0, 1)}) {
    SCOPED_TRACE(devices);
    const Folder folder;
    const Outcome outcome =
        run(folder, "devices=2,memory=33600000", fmt::format("{} --device {}", train, devices));
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err,
                testing::AnyOf(HasSubstr(fmt::format("on device {} rank 0 holds", first)),
                               HasSubstr(fmt::format("on device {} rank 1 holds", second))));
  }
}

/// Lanes that do not wait for the first moment of the device's clock are measured from it all the
/// same; under these seeds they were asked before it was reached.
TEST(StandInMachine, MeasuresLanesThatAreReachedBeforeTheFirst) {
  const Folder folder;
  for (const int seed : {7, 11, 14, 15, 17, 23}) {
    const Outcome outcome =
        run(folder, fmt::format("devices=2,seed={}", seed),
            "train --steps 2 --model lenet --data digits --batch-size 8 --lr 0.05 --optimizer "
            "momentum:momentum=0.9 --partition uniform --share-device yes --schedule fdg "
            "--replicas 2 --stages 3 --device cuda:0,1,0,1,0,1");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST(StandInMachine, SaysWhichDeviceHasNoRoomToTryACopy) {
  const Folder folder;
  const Outcome outcome =
      run(folder, "devices=2,memory=3000", fmt::format("{} --device cuda:0,1", train));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("device 0: out of memory: 262144 bytes are needed"));
}

/// Where there is no way between them CUDA copies through the host; where there is one, the
/// stand-in takes no copy that nobody opened it for, in either direction.
TEST(StandInMachine, OpensTheWayBetweenDevicesWhereThereIsOne) {
  for (const char* what :
       {"--schedule 1f1b --stages 2", "--schedule ssgd --stages 1 --replicas 2"}) {
    SCOPED_TRACE(what);
    const std::string network_of_two =
        fmt::format("{} --microbatches 2 --steps 6 {}", what, network);
    const std::string expected = trained("", fmt::format("{} {}", network_of_two, on_one));
    for (const char* settings : {"devices=2", "devices=2,peers=0"}) {
      EXPECT_TRUE(trained(settings, fmt::format("{} {}", network_of_two, apart(2))) == expected)
          << settings;
    }
  }
}

}  // namespace
}  // namespace unlatch::test
