// What is wrong with a file that a person wrote, where, and what would mend it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace millrace {

/// A place in a text file. Lines and columns count from 1; 0 says "unknown".
struct Location {
    std::string file;
    uint32_t line = 0;
    uint32_t column = 0;
};

/// One mistake: `message` says what is wrong, `hint` (may be empty) what would mend it.
struct Diagnostic {
    enum class Severity { error, warning };
    Location where;
    std::string message;
    std::string hint;
    Severity severity = Severity::error;
    bool secret = false;  ///< the line holds key material: point to it, do not show it

    /// `file:line:column: error: message`, the offending line with a caret, and the hint.
    /// Reads the file again for the line; leaves it out when it cannot, or when it is secret. What
    /// stands behind `key:`, `auth-key:` or `nonce:` in a line is never shown.
    std::string render() const;
};

/// A configuration, rule, route or key file cannot be used as it is. Carries every mistake that was
/// found, at least one; `what()` renders them all.
class ConfigError : public std::runtime_error {
public:
    explicit ConfigError(Diagnostic diagnostic);
    explicit ConfigError(std::vector<Diagnostic> diagnostics);
    const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

private:
    std::vector<Diagnostic> diagnostics_;
};

/// Of `known`, the word that is closest to `word` if it is close enough to be a slip; else "".
std::string closest_word(const std::string& word, const std::vector<std::string>& known);

}  // namespace millrace
