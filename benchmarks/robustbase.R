# Robust fits of robustbase, participant by participant: reads participant, reward and features x1..xd, writes coefficients.
#   Rscript benchmarks/robustbase.R problems.csv coefficients.csv
suppressMessages(library(robustbase))
arguments <- commandArgs(trailingOnly = TRUE)
problems <- read.csv(arguments[1])
features <- grep("^x", names(problems))

methods <- list(
  "lmrob KS2014" = function(x, y) coef(lmrob.fit(x, y, control = lmrob.control("KS2014", max.it = 500))),
  "lmrob MM" = function(x, y) coef(lmrob.fit(x, y, control = lmrob.control(max.it = 500))),
  # ltsReg wants the constant for itself.
  "ltsReg" = function(x, y) coef(ltsReg(x[, -1], y, mcd = FALSE))
)

rows <- list()
for (one in split(problems, problems$participant)) {
  x <- as.matrix(one[, features])
  for (name in names(methods)) {
    set.seed(1)
    found <- suppressWarnings(methods[[name]](x, one$reward))
    rows[[length(rows) + 1]] <- data.frame(participant = one$participant[1], method = name, t(unname(found)))
  }
}
write.csv(do.call(rbind, rows), arguments[2], row.names = FALSE)
