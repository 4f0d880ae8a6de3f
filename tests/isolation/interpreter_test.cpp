// The interpreter by known answers: what the PTX manual says of each instruction, worked out by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "isolation/hostile_corpus.hpp"
#include "isolation/interpreter/machine.hpp"
#include "millrace/isolation/ptx/reader.hpp"

namespace millrace::test::ptx_machine {
namespace {

constexpr uint64_t kWindow = uint64_t{0x7000} << 32;

struct Known {
    const char* instruction;  ///< writes %r1, %rs1, %rd3, %p1, %f1 or %fd1
    uint64_t want;
};

constexpr Known kKnown[] = {
    {"add.s32 %r1, 5, -7", 0xfffffffe},
    {"add.u16 %rs1, 65535, 2", 1},
    {"add.s64 %rd3, -1, 1", 0},
    {"add.sat.s32 %r1, 0x7fffffff, 1", 0x7fffffff},
    {"sub.sat.s32 %r1, -2147483648, 1", 0x80000000},
    {"sub.s32 %r1, 3, 5", 0xfffffffe},
    {"mul.lo.s32 %r1, 65537, 65537", 0x20001},
    {"mul.hi.u32 %r1, 0xffffffff, 0xffffffff", 0xfffffffe},
    {"mul.hi.s32 %r1, -1, 1", 0xffffffff},
    {"mul.hi.u64 %rd3, -1, -1", 0xfffffffffffffffe},
    {"mul.hi.s64 %rd3, -2, 3", ~0ull},
    {"mul.wide.s32 %rd3, -3, 4", static_cast<uint64_t>(-12)},
    {"mul.wide.u32 %rd3, 0xffffffff, 2", 0x1fffffffe},
    {"mul.wide.u16 %r1, 65535, 65535", 0xfffe0001},
    {"mul24.lo.u32 %r1, 0xff000003, 2", 6},
    {"mul24.hi.u32 %r1, 0xffffff, 0xffffff", 0xfffffe00},
    {"mad.lo.s32 %r1, 3, -4, 5", static_cast<uint32_t>(-7)},
    {"mad.wide.u32 %rd3, 0x80000000, 2, 1", 0x100000001},
    {"mad.hi.u32 %r1, 0x80000000, 4, 1", 3},
    {"mad24.lo.s32 %r1, 0xffffff, 2, 5", 3},
    {"sad.u32 %r1, 3, 10, 1", 8},
    {"div.s32 %r1, -7, 2", static_cast<uint32_t>(-3)},
    {"div.u32 %r1, 7, 0", 0xffffffff},
    {"rem.s32 %r1, -7, 2", 0xffffffff},
    {"rem.u64 %rd3, 100, 7", 2},
    {"abs.s32 %r1, -5", 5},
    {"neg.s16 %rs1, 5", 0xfffb},
    {"min.s32 %r1, -1, 1", 0xffffffff},
    {"min.u32 %r1, -1, 1", 1},
    {"max.s64 %rd3, -1, 1", 1},
    {"popc.b32 %r1, 0xf0f0", 8},
    {"popc.b64 %r1, -1", 64},
    {"clz.b32 %r1, 1", 31},
    {"clz.b64 %r1, 0", 64},
    {"bfind.u32 %r1, 0x8000", 15},
    {"bfind.s32 %r1, -1", 0xffffffff},
    {"bfind.shiftamt.u32 %r1, 0x8000", 16},
    {"brev.b32 %r1, 1", 0x80000000},
    {"bfe.u32 %r1, 0xabcdef01, 8, 12", 0xdef},
    {"bfe.s32 %r1, 0x00000f00, 8, 4", 0xffffffff},
    {"bfe.u64 %rd3, 0x8000000000000000, 63, 1", 1},
    {"bfi.b32 %r1, 0xff, 0, 8, 4", 0xf00},
    {"bfi.b64 %rd3, 0xf, -1, 60, 8", ~0ull},
    {"and.b32 %r1, 12, 10", 8},
    {"or.b64 %rd3, 12, 3", 15},
    {"xor.b16 %rs1, 0xffff, 0xff", 0xff00},
    {"not.b32 %r1, 0", 0xffffffff},
    {"cnot.b32 %r1, 0", 1},
    {"cnot.b32 %r1, 7", 0},
    {"lop3.b32 %r1, 0xf0, 0xcc, 0xaa, 0xe8", 0xe8},
    {"shl.b32 %r1, 1, 31", 0x80000000},
    {"shl.b32 %r1, 1, 32", 0},
    {"shr.u32 %r1, -1, 4", 0x0fffffff},
    {"shr.s32 %r1, -16, 2", static_cast<uint32_t>(-4)},
    {"shr.s32 %r1, -16, 77", 0xffffffff},
    {"shr.s64 %rd3, -16, 2", static_cast<uint64_t>(-4)},
    {"shf.l.wrap.b32 %r1, 0x80000001, 2, 1", 5},
    {"shf.r.wrap.b32 %r1, 2, 1, 1", 0x80000001},
    {"shf.l.wrap.b32 %r1, 0x11, 0x22, 32", 0x22},
    {"shf.l.clamp.b32 %r1, 0x11, 0x22, 32", 0x11},
    {"shf.r.clamp.b32 %r1, 0x11, 0x22, 40", 0x22},
    {"prmt.b32 %r1, 0x33221100, 0x77665544, 0x0123", 0x00112233},
    {"prmt.b32 %r1, 0x332211f0, 0x77665544, 0x8888", 0xffffffff},
    {"prmt.b32 %r1, 0x332211f0, 0x77665544, 0x7654", 0x77665544},
    {"prmt.b32.f4e %r1, 0x33221100, 0x77665544, 2", 0x55443322},
    {"prmt.b32.rc8 %r1, 0x33221100, 0, 2", 0x22222222},
    {"mov.b32 %r1, 0xdeadbeef", 0xdeadbeef},
    {"mov.u32 %r1, %tid.x", 33},
    {"mov.u32 %r1, %laneid", 1},
    {"mov.u32 %r1, %lanemask_lt", 1},
    {"selp.b32 %r1, 1, 2, %p2", 1},
    {"selp.b32 %r1, 1, 2, %p3", 2},
    {"slct.u32.s32 %r1, 1, 2, -1", 2},
    {"setp.lt.s32 %p1, -1, 1", 1},
    {"setp.lt.u32 %p1, -1, 1", 0},
    {"setp.ge.s64 %p1, 1, 1", 1},
    {"setp.eq.and.s32 %p1, 1, 1, %p3", 0},
    {"setp.eq.or.s32 %p1, 0, 1, %p2", 1},
    {"setp.eq.and.s32 %p1, 1, 1, !%p3", 1},
    {"setp.ne.s16 %p1, 65536, 0", 0},
    {"set.lt.u32.s32 %r1, -1, 1", 0xffffffff},
    {"cvt.u32.u16 %r1, %rs2", 0xfffe},
    {"cvt.s32.s16 %r1, %rs2", 0xfffffffe},
    {"cvt.u16.u32 %rs1, 0x12345", 0x2345},
    {"cvt.s64.s32 %rd3, -5", static_cast<uint64_t>(-5)},
    {"cvt.sat.u32.s64 %r1, -5", 0},
    {"cvt.sat.s32.s64 %r1, 0x100000000", 0x7fffffff},
    {"cvt.u16.u8 %rs1, %rs2", 0xfe},
    {"cvt.s16.s8 %rs1, %rs2", 0xfffe},
    {"cvt.rn.f32.u32 %f1, 3", 0x40400000},
    {"cvt.rzi.u32.f32 %r1, 0f40600000", 3},
    {"cvt.rni.s32.f32 %r1, 0fC0600000", static_cast<uint32_t>(-4)},
    {"cvt.rpi.s32.f32 %r1, 0f40100000", 3},
    {"cvt.rzi.u32.f32 %r1, 0f7FC00000", 0},
    {"cvt.rzi.u32.f32 %r1, 0fBF800000", 0},
    {"cvt.f64.f32 %fd1, 0f3F800000", 0x3ff0000000000000},
    {"add.rn.f32 %f1, 0f3F800000, 0f3F800000", 0x40000000},
    {"add.rz.f32 %f1, 0f3F800000, 0f33FFFFFF", 0x3f800000},
    {"add.rp.f32 %f1, 0f3F800000, 0f33000000", 0x3f800001},
    {"mul.rn.f64 %fd1, 0d4008000000000000, 0d4000000000000000", 0x4018000000000000},
    {"fma.rn.f32 %f1, 0f40000000, 0f40400000, 0f3F800000", 0x40e00000},
    {"div.rn.f32 %f1, 0f3F800000, 0f40000000", 0x3f000000},
    {"min.f32 %f1, 0f7FC00000, 0f3F800000", 0x3f800000},
    {"neg.f32 %f1, 0f3F800000", 0xbf800000},
    {"setp.ltu.f32 %p1, 0f7FC00000, 0f3F800000", 1},
    {"setp.lt.f32 %p1, 0f7FC00000, 0f3F800000", 0},
};

/// The register that an instruction writes, stored as it is.
std::string stored_result(const std::string& instruction) {
    const size_t begin = instruction.find('%');
    const std::string name = instruction.substr(begin, instruction.find(',') - begin);
    if (name == "%p1") return "selp.b32 %r9, 1, 0, %p1;\nst.u32 [%rd1], %r9;";
    const char* type = name == "%rs1"   ? "u16"
                       : name == "%rd3" ? "u64"
                       : name == "%f1"  ? "f32"
                       : name == "%fd1" ? "f64"
                                        : "u32";
    return std::string("st.") + type + " [%rd1], " + name + ";";
}

Outcome run(Window& window, const std::string& body, const MachineOptions& options = {}) {
    const auto module = isolation::ptx::read(function_around(body), "known.ptx");
    return Machine(module, window, options).run("hostile", {kWindow + 64, kWindow + 128});
}

TEST(Interpreter, GivesKnownAnswers) {
    Window window(kWindow, 0);
    MachineOptions options;
    options.thread = 33;
    for (const Known& known : kKnown) {
        window.clear();
        const std::string body = "setp.eq.u32 %p2, 0, 0;\nsetp.ne.u32 %p3, 0, 0;\nmov.u16 %rs2, 0xfffe;\n" +
                                 std::string(known.instruction) + ";\n" + stored_result(known.instruction);
        const Outcome outcome = run(window, body, options);
        EXPECT_TRUE(outcome.harmless()) << known.instruction << ": " << outcome.violation.what;
        uint64_t got = 0;
        std::memcpy(&got, window.at(kWindow + 64, 8).data(), 8);
        EXPECT_EQ(got, known.want) << known.instruction << " gives 0x" << std::hex << got;
    }
}

TEST(Interpreter, KnowsEveryInstructionThatIsPermitted) {
    // Accesses and what goes elsewhere are in other tests.
    std::set<std::string_view> seen = {"atom", "bra",    "call", "cvta", "fence", "isspacep",
                                       "ld",   "membar", "red",  "ret",  "st"};
    for (const Known& known : kKnown) {
        const std::string_view text = known.instruction;
        seen.insert(text.substr(0, text.find_first_of(". ")));
    }
    for (const std::string_view name : isolation::permitted_opcodes())
        EXPECT_TRUE(seen.contains(name)) << name << " has no known answer";
}

TEST(Interpreter, LoadsStoresAndExchanges) {
    Window window(kWindow, 0);
    const Outcome outcome = run(window,
                                "mov.u32 %r1, 0x80;\nst.u8 [%rd1], %r1;\nld.s8 %r2, [%rd1];\nst.u32 [%rd1+4], %r2;\n"
                                "mov.b64 %rd3, {%r1, %r2};\nst.u64 [%rd1+8], %rd3;\nmov.b64 {%r3, %r4}, %rd3;\n"
                                "st.v2.u32 [%rd1+16], {%r4, %r3};\natom.add.u32 %r5, [%rd1+16], 3;\n"
                                "st.u32 [%rd1+24], %r5;\natom.cas.b32 %r6, [%rd1+20], 0x80, 9;\n"
                                "red.max.u32 [%rd1+24], %r1;\natom.inc.u32 %r7, [%rd1+28], 5;\n"
                                "atom.dec.u32 %r7, [%rd1+32], 5;\natom.exch.b32 %r8, [%rd1+36], 7;");
    ASSERT_TRUE(outcome.harmless()) << outcome.violation.what;
    uint32_t words[10];
    std::memcpy(words, window.at(kWindow + 64, sizeof words).data(), sizeof words);
    const uint32_t want[10] = {0x80, 0xffffff80, 0x80, 0xffffff80, 0xffffff83, 9, 0xffffff80, 1, 5, 7};
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(words[i], want[i]) << i;
}

TEST(Interpreter, TellsWhatIsWrong) {
    Window window(kWindow, 4096);
    const std::pair<const char*, Violation::Kind> wrong[] = {
        {"mov.u64 %rd3, 64;\nld.u32 %r1, [%rd3];", Violation::Kind::outside},
        {"ld.u32 %r1, [%rd1+-8192];", Violation::Kind::outside},
        {"ld.u32 %r1, [%rd1+1];", Violation::Kind::misaligned},
        {"add.s32 %r1, %r2, 1;", Violation::Kind::unset},
        {"$a: bra $a;", Violation::Kind::endless},
        {".local .b32 v;\nld.local.u32 %r1, [v];", Violation::Kind::unset},
        {"ld.u32 %r1, [%rd1+-128];", Violation::Kind::none},
    };
    MachineOptions options;
    options.most_steps = 1000;
    for (const auto& [body, kind] : wrong) EXPECT_EQ(run(window, body, options).violation.kind, kind) << body;
    window.open_guards(false);
    EXPECT_EQ(run(window, "ld.u32 %r1, [%rd1+-128];", options).violation.kind, Violation::Kind::outside);
}

}  // namespace
}  // namespace millrace::test::ptx_machine
