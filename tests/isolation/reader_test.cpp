// PTX is read and written without loss; what is not PTX is refused with its place.
#include <gtest/gtest.h>

#include "isolation/hostile_corpus.hpp"
#include "millrace/base/text/diagnostic.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"

namespace millrace::isolation::ptx {
namespace {

constexpr const char* kHead = ".version 9.0\n.target sm_90\n.address_size 64\n";

Module read_all(const std::string& text) { return read(text, "test.ptx"); }

TEST(Reader, ReadsWhatCompilersWrite) {
    const Module module = read_all(std::string(kHead) + R"(
.file 1 "a folder/source.cu"
.weak .global .align 4 .u32 kTable[2][3] = {{1, -2, 0x3}, {0b100, 05, 6U}};
.const .align 8 .f64 kReal = 0d3FF0000000000000;
.global .align 1 .b8 $str[3] = {97, 98};
.global .u64 where = generic($str)+1;
.visible .func  (.param .align 4 .b8 func_retval0[8]) f(
	.param .b64 f_param_0,
	.param .u64 .ptr .global .align 8 f_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>, %extra;
	.reg .b64 	%rd<3>; // a comment
	.loc	1 41 30, function_name $L__info_string1+4, inlined_at 2 20 9
	ld.param.u64 	%rd1, [f_param_0]; /* another
	comment */
	@!%p1 bra 	$L__BB0_2;
	ld.v2.u32 	{%r1, %r2}, [%rd1+-8];
$L__BB0_2:
	.pragma "nounroll";
	setp.eq.s32 %p1|_, %r1, 0;
	st.param.b32 	[func_retval0+4], -1;
	ret;
}
.section .debug_str
{
$L__info_string1: .b8 95, 0
}
)");
    ASSERT_EQ(module.variables.size(), 4u);
    EXPECT_EQ(module.variables[0].count, 6u);
    EXPECT_EQ(static_cast<int64_t>(module.variables[0].initials[1].value), -2);
    EXPECT_EQ(module.variables[0].initials[3].value, 4u);
    EXPECT_EQ(module.variables[3].initials[0].variable, 2);
    EXPECT_EQ(module.source_name(1), "a folder/source.cu");
    ASSERT_EQ(module.functions.size(), 1u);
    const Function& f = module.functions[0];
    EXPECT_EQ(f.registers.size(), 10u);
    EXPECT_EQ(f.parameters.size(), 2u);
    EXPECT_EQ(f.variables[f.results[0]].bytes(), 8u);
    const Statement& load = f.body[2];
    EXPECT_EQ(load.full_opcode(), "ld.v2.u32");
    EXPECT_EQ(load.operands[1].offset, -8);
    EXPECT_EQ(load.source_line, 41u);
    EXPECT_EQ(f.body[1].operands[0].index, f.body[3].index) << "the branch's label";
}

TEST(Reader, WritesWhatItReadsAgain) {
    for (const test::HostileCase& one : test::hostile_cases()) {
        if (!one.refused.empty()) continue;
        const Module module = read_all(one.text);
        // The first time registers get other names; from then on nothing changes.
        Limits own;
        own.reserved_names = true;
        const std::string once = write(read(write(module), "once.ptx", own));
        const Module again = read(once, "again.ptx", own);
        EXPECT_EQ(write(again), once) << one.name;
        EXPECT_EQ(again.functions.size(), module.functions.size()) << one.name;
    }
}

TEST(Reader, MakesLocalSymbolsOfAllButVisibleFunctions) {
    const std::string text = write(read_all(std::string(kHead) +
                                            ".visible .global .b32 a;\n.weak .global .b32 b;\n"
                                            ".weak .func f() { ret; }\n.visible .func g() { ret; }\n"));
    EXPECT_EQ(text.find("weak"), std::string::npos) << text;
    EXPECT_EQ(text.find(".visible .global"), std::string::npos) << text;
    EXPECT_NE(text.find(".visible .func g"), std::string::npos) << text;
}

TEST(Reader, SaysWhereAndWhat) {
    struct Wrong {
        const char* text;
        uint32_t line, column;
        const char* message;
    };
    const Wrong wrong[] = {
        {".func f() { add.s32 %r1, 1, @; }", 4, 29, "expected an operand, found '@'"},
        {".func f() {\n  bra $nowhere;\n}", 5, 7, "there is no label '$nowhere'"},
        {".func f() {\n.reg .b32 %r<2>;\nmov.u32 %r1, x;\n}", 6, 14, "'x' is declared nowhere"},
        {".func f() { ret }", 4, 17, "expected an operand, found '}'"},
        {".global .b32 a[4] = {1, 2, 3, 4, 5};", 4, 14, "has 4 elements and 5 values"},
        {".global .b32 a;\n.global .b32 a;", 5, 14, "declared twice"},
        {".global .b33 a;", 4, 9, "not understood in a declaration"},
        {".func f() { /* }", 4, 13, "a comment without an end"},
        {".pragma \"x", 4, 9, "a string without an end"},
        {".global .b32 a = 0f12;", 4, 18, "has 8 hexadecimal digits"},
        {".global .b32 a = 09;", 4, 18, "goes on with something else"},
        {".global .b32 a = 0x;", 4, 18, "a number without digits"},
        {".func f(.param .b32 a); .func f(.param .b64 a) { ret; }", 4, 31, "declared with other parameters"},
        {".func f() { ret; }\n.func f() { ret; }", 5, 7, "defined twice"},
        {".func (.reg .b32 x) f() { ret; }", 4, 8, "in a register is not read"},
        {".global .align 3 .b32 a;", 4, 16, "a power of two"},
        {"mov.u32 %r1, 1;", 4, 1, "expected a directive, found 'mov'"},
        {".maxntid 3", 4, 1, "not understood outside of functions"},
    };
    for (const Wrong& one : wrong) try {
            read_all(std::string(kHead) + one.text);
            ADD_FAILURE() << "was read: " << one.text;
        } catch (const ConfigError& e) {
            const Diagnostic& told = e.diagnostics().at(0);
            EXPECT_NE(told.message.find(one.message), std::string::npos) << told.message;
            EXPECT_EQ(told.where.line, one.line) << one.text << ": " << told.message;
            EXPECT_EQ(told.where.column, one.column) << one.text << ": " << told.message;
        }
}

TEST(Reader, StopsAtItsLimits) {
    Limits limits;
    limits.text_bytes = 100;
    EXPECT_THROW(read(std::string(101, ' '), "x", limits), ConfigError);
    limits = {};
    limits.statements = 3;
    EXPECT_THROW(read(std::string(kHead) + ".func f() { ret; ret; ret; ret; }", "x", limits), ConfigError);
    EXPECT_NO_THROW(read(std::string(kHead) + ".func f() { ret; ret; ret; }", "x", limits));
    limits = {};
    limits.initials = 2;
    EXPECT_THROW(read(std::string(kHead) + ".global .b8 a[3] = {1, 2, 3};", "x", limits), ConfigError);
    limits = {};
    limits.registers = 5;
    EXPECT_THROW(read(std::string(kHead) + ".func f() { .reg .b32 %r<3>, %s<3>; ret; }", "x", limits), ConfigError);
}

TEST(Reader, SurvivesEveryPrefixAndEveryChangedByte) {
    const std::string whole = test::function_around(
        ".local .align 4 .b8 mine[64];\n{\n.param .b64 a;\nst.param.b64 [a], %rd1;\n}\nld.v2.u32 {%r1, %r2}, "
        "[%rd1+8];\n"
        "@!%p1 bra $end;\nsetp.eq.s32 %p1|%p2, %r1, 0x10;\n$end:\nmov.f32 %f1, 0f3F800000;");
    size_t read_well = 0;
    const auto attempt = [&](const std::string& text) {
        try {
            write(read_all(text));
            ++read_well;
        } catch (const ConfigError& e) {
            EXPECT_FALSE(e.diagnostics().empty());
        }
    };
    for (size_t length = 0; length <= whole.size(); ++length) attempt(whole.substr(0, length));
    for (size_t at = 0; at < whole.size(); ++at)
        for (const char byte : {'\0', ';', '{', '}', '.', '0', '%', '\xff', '['}) {
            std::string changed = whole;
            changed[at] = byte;
            attempt(changed);
        }
    EXPECT_GT(read_well, 100u);
}

}  // namespace
}  // namespace millrace::isolation::ptx
