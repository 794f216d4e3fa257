module hedgerow.invalid/clientcheck

go 1.21
