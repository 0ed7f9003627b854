module postern.test/oracle

go 1.26.8

require github.com/sijms/go-ora/v2 v2.8.24
